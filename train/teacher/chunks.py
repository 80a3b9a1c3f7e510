"""What the teacher reads of a text, and its vectors of whole articles out of those of chunks."""

import html
import re
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from encoder.embeddings import unit_rows
from encoder.model.weights import F32
from encoder.support.files import cache_root
from train.data.readers import Story

WIDTH = 384
CHUNK_WORDS = 170  # about 254 word pieces of English news
CHUNKS = 5
NOISE = re.compile(r"https?://\S*|\bRT @\w+:?")


def teacher_folder(cache: Path | None) -> Path:
    """Where the vectors are kept: the folder given, else one in newsift's cache."""
    return cache or cache_root() / "teacher"


def readable(text: str) -> str:
    """A text as the teacher reads it: without links and signs of a retweet."""
    return NOISE.sub(" ", html.unescape(text)).strip() or text


def chunks(title: str, text: str) -> list[str]:
    """An article in pieces that the teacher can read whole: the lead first, with its title."""
    words = f"{title}. {text}".split() if title else text.split()
    starts = range(0, min(len(words), CHUNKS * CHUNK_WORDS), CHUNK_WORDS)
    return [" ".join(words[start : start + CHUNK_WORDS]) for start in starts]


def whole(articles: Sequence[Story], vectors_of: Callable[[list[str]], F32]) -> F32:
    """Unit vectors of whole articles: the mean of those of their chunks, the lead twice."""
    parts = [chunks(*article) or [""] for article in articles]
    vectors = unit_rows(vectors_of([part for article in parts for part in article]))
    if not parts:
        return vectors
    starts = np.cumsum([0, *map(len, parts)])[:-1]
    return unit_rows(np.add.reduceat(vectors, starts, axis=0) + vectors[starts])
