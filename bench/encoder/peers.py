"""What others run for the same job: MiniLM by sentence-transformers and by ONNX Runtime in int8."""

import importlib.util
import logging
import os
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np

from bench.measure import NotAvailable
from encoder.errors import InputError
from encoder.model.weights import F32
from encoder.support.files import cache_root
from train.teacher.minilm import Teacher

BATCH = 32
MAX_PIECES = 256
PROBES = (
    "Police close a downtown street after a van strikes pedestrians, several injured",
    "so happy today!!!",
    "#NowPlaying the new album, track three is a gem",
    "The river rises faster than expected and the city opens shelters",
)
LEAST_COSINE = 0.95


@cache
def minilm() -> Teacher:
    """MiniLM as sentence-transformers runs it; torch's number of threads is set row by row."""
    try:
        return Teacher(BATCH)
    except InputError as error:
        raise NotAvailable(str(error)) from error


class MiniLmInt8:
    """The same model by ONNX Runtime, weights in int8 per channel, on exactly so many threads."""

    def __init__(self, threads: int) -> None:
        missing = [name for name in ("onnx", "onnxruntime") if not importlib.util.find_spec(name)]
        if missing:
            raise NotAvailable(f"no {', '.join(missing)}: not installed; call `make peers`")
        folder = minilm().folder
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(quantised(folder)), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_padding()
        self._tokenizer.enable_truncation(MAX_PIECES)

    def texts(self, texts: Sequence[str]) -> F32:
        """Unit vectors: [n, 384], computed in batches of texts of like length."""
        by_length = np.argsort([-len(text) for text in texts], kind="stable")
        found = np.empty((len(texts), 384), np.float32)
        for start in range(0, len(texts), BATCH):
            chosen = by_length[start : start + BATCH]
            coded = self._tokenizer.encode_batch_fast([texts[i] for i in chosen])
            ids, mask = ([getattr(one, key) for one in coded] for key in ("ids", "attention_mask"))
            feed = {"ids": np.array(ids, np.int64), "mask": np.array(mask, np.int64)}
            found[chosen] = self._session.run(None, feed)[0]
        return found


def int8(threads: int) -> MiniLmInt8:
    """The int8 form on so many threads; one that drifts from sentence-transformers is refused."""
    model = MiniLmInt8(threads)
    check_int8(model)
    return model


def check_int8(model: MiniLmInt8) -> float:
    """The lowest cosine with sentence-transformers on a few texts."""
    exact, found = minilm().texts(PROBES), model.texts(PROBES)
    lowest = float((exact * found).sum(axis=1).min())
    if lowest < LEAST_COSINE:
        raise NotAvailable(f"int8: cosine {lowest:.3f} with sentence-transformers: not comparable")
    return lowest


def quantised(folder: Path) -> Path:
    """The int8 model, exported and quantised once into newsift's cache."""
    import onnxruntime
    import torch
    from onnxruntime.quantization import QuantType, quantize_dynamic

    versions = f"{torch.__version__}-{onnxruntime.__version__}".replace("+", "-")
    kept = cache_root() / "bench" / f"minilm-int8-{versions}.onnx"
    if kept.exists():
        return kept
    kept.parent.mkdir(parents=True, exist_ok=True)
    whole, part = kept.with_suffix(".fp32"), kept.with_suffix(f".{os.getpid()}")
    try:
        to_onnx(folder, whole)
        logging.disable(logging.WARNING)  # it recommends a step that changes nothing here
        quantize_dynamic(
            whole, part, weight_type=QuantType.QInt8, op_types_to_quantize=["MatMul"],
            per_channel=True,
        )  # fmt: skip
        part.replace(kept)
    finally:
        logging.disable(logging.NOTSET)
        whole.unlink(missing_ok=True)
        part.unlink(missing_ok=True)
    return kept


def to_onnx(folder: Path, file: Path) -> None:
    """Write MiniLM, its pooling and its scaling to unit length as one graph."""
    import torch
    from transformers import AutoModel

    class Pooled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = AutoModel.from_pretrained(str(folder), attn_implementation="eager").eval()

        def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state  # [b, n, d]
            seen = mask.unsqueeze(-1).float()
            mean = (states * seen).sum(1) / seen.sum(1)
            return torch.nn.functional.normalize(mean, dim=-1)  # [b, d]

    example = torch.ones(2, 8, dtype=torch.int64)
    axes = {"ids": {0: "b", 1: "n"}, "mask": {0: "b", 1: "n"}}
    with warnings.catch_warnings():  # the tracing exporter is deprecated; it needs one package less
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Pooled(), (example, example), str(file), dynamo=False, input_names=list(axes),
            output_names=["vectors"], dynamic_axes=axes, opset_version=17,
        )  # fmt: skip
