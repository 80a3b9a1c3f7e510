"""Encoders that are compared and never served, as scorers beside the models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch

from encoder import Embeddings
from encoder.embeddings import unit_rows
from encoder.errors import DeviceError
from encoder.model.config import Side
from encoder.text.tokenizer import Tokenizer, Tokens
from train.data.readers import Story
from train.model.baseline import Baseline, read_baseline
from train.model.export import vectors
from train.protocol.peers import Vectors, pair


@dataclass(frozen=True, slots=True)
class Compared:
    """Such an encoder, with its own mix or another."""

    name: str
    baseline: Baseline
    reader: Tokenizer
    device: str
    mix: float

    @classmethod
    def load(cls, name: str, device: str = "auto", mix: float | None = None) -> Self:
        """The encoder in this directory."""
        if device == "cuda" and not torch.cuda.is_available():
            raise DeviceError("device: no CUDA here; use auto or cpu")
        where = "cuda" if device != "cpu" and torch.cuda.is_available() else "cpu"
        made = read_baseline(Path(name))
        made.model.to(where)
        reader = Tokenizer(
            made.vocabulary, made.idf, made.config.post_tokens, made.config.article_tokens
        )
        return cls(name, made, reader, where, made.mix if mix is None else mix)

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Vectors:
        """Embed all the texts."""
        articles = self.reader.articles([pair(story) for story in stories])
        return Vectors(
            self._embed(self.reader.posts(posts), Side.POST), self._embed(articles, Side.ARTICLE)
        )

    def _embed(self, tokens: Tokens, side: Side) -> Embeddings:
        found = vectors(self.baseline.model, tokens.ids, tokens.offsets, side, self.device)
        return Embeddings(unit_rows(found), tokens.lexical, self.mix, self.baseline.digest)
