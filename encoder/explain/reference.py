"""Explanations by torch's gradients, for a model of any depth.

With attention and max-pooling choices fixed, y is affine in the token vectors. A token's
part of a product with y is the dot product of its vector and the gradient.
"""

import os
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn

from encoder.model.config import Side
from encoder.model.siamese import Siamese
from encoder.model.star import Attention
from encoder.model.weights import F32, I32, I64, Weights
from encoder.score.lexical import spans
from encoder.support.threads import PerProcess

PAIRS_AT_ONCE = 32  # of long texts: a few hundred MB


class ReferenceReader:
    """Runs the trainable model and records its attention."""

    def __init__(self, weights: Weights) -> None:
        self._model = Siamese.from_weights(weights).requires_grad_(False)
        self._attention: list[Tensor] = []
        for module in self._model.modules():
            if isinstance(module, Attention):
                module.shares.register_forward_hook(self._record)
        self._process, self._lock = os.getpid(), PerProcess(self._enter_process)

    def star_attention(self, ids: I32, side: Side) -> tuple[F32, F32]:
        """Compute the attention of the last ring [n, h, 2c+2] and star [h, 1+n] over one text."""
        with self._lock.get():
            self._read(ids, np.array([0, len(ids)]), side)
            ring, star = self._attention[-2:]
        *window, first, relay = ring  # 2c+3 times [n, h]
        window[len(window) // 2] = window[len(window) // 2] + first
        return torch.stack([*window, relay], 2).numpy(), star.T.numpy()

    def attention(self, ids: I32, side: Side) -> F32:
        """The attention of the last star on each token: ≥ 0 with sum 1, many 0 [n]."""
        if len(ids) == 0:
            return np.zeros(0, np.float32)
        ring, star = self.star_attention(ids, side)
        for weights in (star[:, 1:].sum(axis=0), received_attention(ring)):
            if weights.sum() > 0:
                return np.asarray(weights / weights.sum(), np.float32)
        return np.full(len(ids), 1 / len(ids), np.float32)

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's y with a unit row, pair after pair.

        `pairs` [pairs, 2] index texts with tokens, and rows; y's length is a constant.
        """
        parts = [np.zeros(0, np.float32)]
        for first in range(0, len(pairs), PAIRS_AT_ONCE):
            text, row = pairs[first : first + PAIRS_AT_ONCE].T
            lengths = np.diff(offsets)[text]
            tokens = ids[spans(offsets[text], lengths)]
            parts.append(self._parts(tokens, np.append(0, np.cumsum(lengths)), side, rows[row]))
        return np.concatenate(parts)

    def _parts(self, ids: I32, offsets: I64, side: Side, rows: F32) -> F32:
        """Compute the parts for texts with one row each."""
        with self._lock.get():
            tokens, y = self._read(ids, offsets, side)  # [N, d], [n, d]
            length = y.norm(dim=1, keepdim=True).clamp(min=torch.finfo(y.dtype).tiny)
            (gradient,) = torch.autograd.grad(y, tokens, torch.tensor(rows) / length)
        return (gradient * tokens.detach()).sum(1).numpy()

    def _read(self, ids: I32, offsets: I64, side: Side) -> tuple[Tensor, Tensor]:
        """The token vectors [N, d] of texts, and y [n, d] with its graph."""
        self._attention.clear()
        index = torch.tensor(ids, dtype=torch.int64)
        tokens = self._model.embedding[index].requires_grad_()
        return tokens, self._model.read(tokens, index, torch.tensor(offsets), side)

    def _record(self, _module: nn.Module, _given: object, p: Tensor) -> Tensor:
        """Record an attention and stop its gradient."""
        self._attention.append(p.detach())
        return self._attention[-1]

    def _enter_process(self) -> Lock:
        if os.getpid() != self._process:
            torch.set_num_threads(1)  # OpenMP would wait for ever for the parent's threads
        return Lock()


def received_attention(ring: F32) -> F32:
    """Sum the ring's attention [n, h, 2c+2] on each token: [n]."""
    window = ring[:, :, :-1].sum(axis=1)  # [n, 2c+1]
    n, width = window.shape
    target = np.arange(n)[:, None] + np.arange(width) - width // 2
    total = np.zeros(n, np.float32)
    np.add.at(total, target.clip(0, n - 1), window)  # 0 outside the text
    return total
