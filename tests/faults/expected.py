"""What a post must come to: one pair at a time, by the contract and not by the worker."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import encoder
from encoder.artifact import write_model
from tests.encoder.small import WORDS, small_model


@dataclass(frozen=True, slots=True)
class SeedWanted:
    """A seed article with a threshold of its own."""

    id: str
    title: str
    text: str
    threshold: float

    @property
    def version(self) -> str:
        """The first 12 digits of the digest of title and text."""
        return digest([self.title, self.text])[:12]

    @property
    def value(self) -> bytes:
        """The control record that publishes it."""
        row = {"text": self.text, "title": self.title, "threshold": self.threshold}
        return json.dumps(row).encode()


def digest(value: Any) -> str:
    """SHA-256 of the value as JSON without spaces or escapes."""
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


class Oracle:
    """Knows the model and the seeds, and so which post matches which of them."""

    def __init__(self, folder: Path) -> None:
        self.model = folder / "model"
        write_model(self.model, small_model())
        self._enc = encoder.load(self.model, device="cpu", threads=1)
        texts = ("storm flood river city in the storm", "match game music on the music")
        self.seeds = [self._seed(f"seed-{n}", text) for n, text in enumerate(texts)]
        self._articles = [self._enc.articles([(s.title, s.text)]) for s in self.seeds]

    def match_ids(self, post_id: str, text: str) -> frozenset[str]:
        """The ids of all matches of a plain post."""
        post = self._enc.posts([text])
        found = []
        for seed, article in zip(self.seeds, self._articles, strict=True):
            if post.similarity(article)[0, 0] >= np.float32(seed.threshold):
                named = ["plain", post_id, text, seed.id, seed.version, self._enc.digest]
                found.append(digest(named)[:32])
        return frozenset(found)

    def _seed(self, name: str, text: str) -> SeedWanted:
        """A seed that about a fourth of the posts match, none of them by a hair."""
        article = self._enc.articles([("", text)])
        scores = np.sort(self._enc.posts(post_texts()).similarity(article)[:, 0])
        band = scores[int(len(scores) * 0.7) : int(len(scores) * 0.8)]
        gaps = np.diff(band)
        widest = int(gaps.argmax())
        assert gaps[widest] > 1e-4, "no gap between the scores: a match would hang by a hair"
        threshold = round(float(band[widest] + band[widest + 1]) / 2, 6)
        return SeedWanted(name, "", text, threshold)


def post_texts(count: int = 1000) -> list[str]:
    """The texts of a story's posts: always the same, of a few known words each."""
    rng = np.random.default_rng(11)
    words = [word for word in WORDS if word.isalpha()]
    return [" ".join(rng.choice(words, rng.integers(3, 9))) for _ in range(count)]
