"""The work of the second process on a first start: compiles everything except the vectors."""

import sys
from pathlib import Path

import numpy as np

from encoder.encoder import Encoder
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64
from encoder.model_directory import read_model

TEXTS = ["a van hits pedestrians in Toronto", "Straße 😀 #fire @someone https://example.org/"]


class Blank:
    """A backend that gives all texts the same vector without computing."""

    def __init__(self, dim: int) -> None:
        self.dim = dim

    def forward(self, ids: I32, offsets: I64, side: Side) -> F32:
        """Ones for every text: [n, d]."""
        return np.ones((len(offsets) - 1, self.dim), np.float32)

    def close(self) -> None:
        """Nothing has to end."""


def read_texts(folder: Path) -> None:
    """Process posts and articles as a model does, and compare them in every way."""
    model = read_model(folder)
    enc = Encoder(model, Blank(model.weights.config.dim), "kernel")
    posts, articles = enc.posts(TEXTS), enc.articles(TEXTS)
    enc.thresholds(articles, rate=0.5)
    posts.similarity(articles)


if __name__ == "__main__":
    read_texts(Path(sys.argv[1]))
