"""The star transformer as it is stored, in PyTorch: on a GPU, and as the reference in float64.

Activations are rounded as on a CPU, and products of codes add up to the same whole numbers, in
bf16 too: every code fits it, and the sums are float32. So the runtimes differ by what lies between
the products. With a coarse code alone a last digit there would turn a code, that code many of the
next layer's, and so on: the vectors would differ by hundredths.
"""

from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from encoder.model.star_settings import EPSILON, FINE
from encoder.model.star_weights import StarWeights
from encoder.model.weights import F32, I32
from encoder.readers.star_inputs import Places, padded_batch

BATCH_TOKENS = {"cpu": 1024, "cuda": 2**16}


class StarTorch:
    """Reads texts as token ids, on one device and in one precision."""

    def __init__(self, weights: StarWeights, device: str, precision: torch.dtype) -> None:
        self.settings, self._device, self._precision = weights.settings, device, precision
        self._places = Places(weights)
        self._weights = {
            name: torch.as_tensor(value, dtype=precision, device=device)
            for name, value in weights.tensors.items()
            if not name.endswith("codes")
        }
        self._codes = {
            name.removesuffix(".codes"): torch.as_tensor(value, device=device).to(
                torch.bfloat16 if device == "cuda" else precision
            )
            for name, value in weights.tensors.items()
            if name.endswith("codes")
        }
        self.batch_tokens = BATCH_TOKENS[device]
        self.keeps_tokens = device == "cpu"  # a GPU would copy all of them

    def vectors(self, texts: Sequence[I32]) -> F32:
        """The vectors of texts of one padded length: [n, d], not normalised."""
        return np.asarray(self._means(texts, self._tokens(texts)).float().cpu())

    def both(self, texts: Sequence[I32]) -> tuple[F32, F32]:
        tokens = self._tokens(texts)
        vectors = self._means(texts, tokens).float().cpu()
        return np.asarray(vectors), np.asarray(tokens.float().cpu())

    def tokens(self, texts: Sequence[I32]) -> F32:
        """The vectors of their tokens, whose mean is the text's: [n, L, d]."""
        return np.asarray(self._tokens(texts).float().cpu())

    def _means(self, texts: Sequence[I32], tokens: Tensor) -> Tensor:
        shares = self._tensor(padded_batch(texts).shares)  # [n, 1, L]
        return (shares @ tokens).squeeze(1)  # [n, d]

    @torch.inference_mode()
    def _tokens(self, texts: Sequence[I32]) -> Tensor:
        batch, weights = padded_batch(texts), self._weights
        length = batch.ids.shape[1]
        ids = torch.as_tensor(batch.ids, device=self._device)
        rows = self._codes["tokens"][ids].to(self._precision)  # [n, L, w]
        x = rows * weights["tokens.scales"][ids].unsqueeze(2)
        x = self._norm(x + self._tensor(self._places.positions(length)), "norm")
        bias = self._tensor(self._places.bias(length)) + self._tensor(batch.unseen)  # [n, h, L, L]
        for number in range(self.settings.layers):
            x = self._layer(x, bias, f"layers.{number}")
            if number == self.settings.bridge:
                x = x + self._linear(x, "bridge")
        return x @ weights["axes.weight"].T

    def _layer(self, x: Tensor, bias: Tensor, name: str) -> Tensor:  # [n, L, w] -> [n, L, w]
        n, length, width = x.shape
        projected = self._linear(x, f"{name}.attention.query_key_value")  # [n, L, 3w]
        by_head = projected.view(n, length, 3, self.settings.heads, -1)
        q, k, v = by_head.permute(2, 0, 3, 1, 4)  # 3 × [n, h, L, k]; q was scaled when stored
        mixed = (q @ k.mT + bias).softmax(3) @ v  # [n, h, L, k]
        joined = mixed.transpose(1, 2).reshape(n, length, width)
        x = self._norm(
            x + self._linear(joined, f"{name}.attention.output"), f"{name}.attention_norm"
        )
        wide = F.gelu(self._linear(x, f"{name}.widen"))  # [n, L, inner]
        return self._norm(x + self._linear(wide, f"{name}.narrow"), f"{name}.norm")

    def _linear(self, x: Tensor, name: str) -> Tensor:  # [n, L, in] -> [n, L, out]
        weights, codes, (n, length, _) = self._weights, self._codes[name], x.shape
        scale = weights[f"{name}.input_scale"]
        x = (x * weights[f"{name}.input_factors"]).flatten(0, 1)  # [n · L, in]
        coarse = (x / scale).round().clamp(-128, 127)
        fine = ((x - coarse * scale) / (scale / FINE)).round().clamp(-128, 127)
        sums = _product(coarse, codes) * FINE + _product(fine, codes)  # [n · L, out]
        out = sums * (scale / FINE * weights[f"{name}.scales"]) + weights[f"{name}.bias"]
        return out.view(n, length, -1)

    def _norm(self, x: Tensor, name: str) -> Tensor:
        weight, bias = self._weights[f"{name}.weight"], self._weights[f"{name}.bias"]
        return F.layer_norm(x, weight.shape, weight, bias, EPSILON)

    def _tensor(self, values: F32) -> Tensor:
        return torch.as_tensor(values, dtype=self._precision, device=self._device)


def _product(rows: Tensor, codes: Tensor) -> Tensor:  # [r, in], [in, out] -> [r, out]
    """Whole numbers; in bf16 their sums are float32."""
    if codes.dtype is torch.bfloat16:
        return torch.mm(rows.to(codes.dtype), codes, out_dtype=torch.float32)
    return rows @ codes
