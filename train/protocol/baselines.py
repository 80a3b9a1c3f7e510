"""Encoders that are compared and never served, as scorers beside the models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import torch

from encoder.errors import DeviceError
from encoder.model.config import Side
from encoder.text.tokenizer import Tokenizer
from train.data.readers import Story
from train.model.baseline import Baseline, read_baseline
from train.model.export import embedded
from train.protocol.peers import Embedded


@dataclass(frozen=True, slots=True)
class Compared:
    """Such an encoder, with its own mix or another."""

    name: str
    baseline: Baseline
    reader: Tokenizer
    mix: float

    @classmethod
    def load(cls, name: str, device: str = "auto", mix: float | None = None) -> Self:
        """The encoder in this directory."""
        if device == "cuda" and not torch.cuda.is_available():
            raise DeviceError("device: no CUDA here; use auto or cpu")
        made = read_baseline(Path(name))
        made.model.to("cuda" if device != "cpu" and torch.cuda.is_available() else "cpu")
        config = made.config
        reader = Tokenizer(made.vocabulary, made.idf, config.post_tokens, config.article_tokens)
        return cls(name, made, reader, made.mix if mix is None else mix)

    def prepare(self, posts: Sequence[str], stories: Sequence[Story]) -> Embedded:
        """Embed all the texts."""
        read = (self.reader.posts(posts), Side.POST), (self.reader.articles(stories), Side.ARTICLE)
        return Embedded(*(embedded(self.baseline.model, *one, self.mix) for one in read))
