"""The expected matches of a post: one pair at a time, by the contract, without the worker."""

import base64
import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

import encoder
from encoder import Embeddings
from encoder.model_directory import write_model
from encoder.score.exact import pair_scores
from encoder.score.lexical import SparseRows
from tests.encoder.small_model import WORDS
from tests.encoder.small_transformer import model_with_star

BACKGROUND_POSTS = 4000  # enough for the skim thresholds of the default rate


@dataclass(frozen=True, slots=True)
class SeedWanted:
    id: str
    title: str
    text: str
    threshold: float
    expires_at: datetime | None = None

    @property
    def version(self) -> str:
        return digest([self.title, self.text])[:12]

    @property
    def value(self) -> bytes:
        row = {"text": self.text, "title": self.title, "threshold": self.threshold}
        if self.expires_at is not None:
            row["expires_at"] = self.expires_at.isoformat()
        return json.dumps(row).encode()


@dataclass(frozen=True, slots=True)
class ProfileWanted(SeedWanted):
    seeds: dict[str, str] | None = None
    model: str = ""

    @property
    def version(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()[:12]

    @property
    def value(self) -> bytes:
        row: dict[str, Any] = {"event": self.id.removeprefix("profile|"), "vectors": self.text}
        row |= {"seeds": self.seeds, "model": self.model, "threshold": self.threshold}
        return json.dumps(row).encode()


def seed_set(seeds: Iterable[SeedWanted]) -> str:
    return digest(sorted([s.id, s.version, f"{s.threshold:.6f}"] for s in seeds))[:12]


def digest(value: Any) -> str:
    plain = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


class Oracle:
    """Of a small model and random texts, or of a model by name and texts of which a share match."""

    def __init__(
        self, folder: Path, model: str = "", texts: Sequence[str] = (), share: float = 0.25
    ) -> None:
        self.model: Path | str = model or folder / "model"
        if isinstance(self.model, Path):
            write_model(self.model, model_with_star(BACKGROUND_POSTS))
        self._enc = encoder.load(self.model, device="cpu", threads=1)
        texts = texts or post_texts()
        self._read, self._skimmed = self._enc.posts(texts), self._enc.skim(texts)
        self._share = share
        self._articles: dict[str, encoder.Embeddings] = {}
        texts = ("storm flood river city in the storm", "match game music on the music")
        self.seeds = [self.seed(f"seed-{n}", text) for n, text in enumerate(texts)]

    def match_ids(self, post_id: str, text: str, seeds: Iterable[SeedWanted]) -> frozenset[str]:
        read, skimmed, now = self._enc.posts([text]), self._enc.skim([text]), datetime.now(UTC)
        result = []
        for seed in seeds:
            over = seed.expires_at is not None and seed.expires_at <= now
            if not over and self._match(read, skimmed, seed)[0]:
                named = ["plain", post_id, text, seed.id, seed.version, self._enc.digest]
                result.append(digest(named)[:32])
        return frozenset(result)

    def matching(self, seed: SeedWanted) -> NDArray[np.bool_]:
        """Which of its texts match the seed."""
        return self._match(self._read, self._skimmed, seed)

    def _match(self, read: Embeddings, skimmed: Embeddings, seed: SeedWanted) -> NDArray[np.bool_]:
        article = self._article(seed)
        (automatic,), (skim,) = self._enc.match_thresholds(article)
        # A looser threshold lowers the skim threshold by as much, a stricter one does not raise it.
        skim = np.float32(float(skim) - max(0.0, float(automatic) - seed.threshold))
        pairs = np.stack([np.arange(len(read)), np.zeros(len(read), np.int64)], axis=1)
        is_read: NDArray[np.bool_] = pair_scores(skimmed, article, pairs) >= skim
        return is_read & (pair_scores(read, article, pairs) >= np.float32(seed.threshold))

    @property
    def digest(self) -> str:
        return self._enc.digest

    def seed(self, name: str, text: str) -> SeedWanted:
        """A seed that about its share of the texts match, none of them by a hair."""
        return SeedWanted(name, "", text, self._threshold(self._enc.articles([("", text)])))

    def profile(self, seed: SeedWanted, against: str) -> ProfileWanted:
        """What the event of a seed has learned: its vector less half of another's, of length 1."""
        one, other = self._enc.articles([("", seed.text), ("", against)]).as_vectors().toarray()
        both = (one - other / 2) / np.linalg.norm(one - other / 2)
        dense, slots = both[: self._enc.dim], np.flatnonzero(both[self._enc.dim :])
        weights = both[self._enc.dim :][slots]
        named = {"dense": dense, "slots": slots.astype(np.int32), "weights": weights}
        text = base64.b64encode(save(named)).decode()
        threshold = self._threshold(self._profile_row(text))
        return ProfileWanted(
            f"profile|{seed.id}", "", text, threshold,
            seeds={seed.id: seed.version}, model=self._enc.digest,
        )  # fmt: skip

    def _profile_row(self, text: str) -> Embeddings:
        arrays = load(base64.b64decode(text))
        near, same = (np.float32(part**0.5) for part in (1 - self._enc.mix, self._enc.mix))
        dense = np.asarray(arrays["dense"] / near, np.float32)
        weights = np.asarray(arrays["weights"] / same, np.float32)
        words = SparseRows(np.array([0, len(weights)]), arrays["slots"], weights)
        return Embeddings(dense[None], words, self._enc.mix, self._enc.digest)

    def _threshold(self, article: Embeddings) -> float:
        scores = np.sort(self._read.similarity(article)[:, 0])
        low, high = (int(len(scores) * (1 - part * self._share)) for part in (1.2, 0.8))
        band = scores[low:high]
        gaps = np.diff(band)
        widest = int(gaps.argmax())
        assert gaps[widest] > 1e-4, "no gap between the scores: a match would hang by a hair"
        return round(float(band[widest] + band[widest + 1]) / 2, 6)

    def _article(self, seed: SeedWanted) -> encoder.Embeddings:
        if seed.version not in self._articles:
            self._articles[seed.version] = (
                self._profile_row(seed.text)
                if isinstance(seed, ProfileWanted)
                else self._enc.articles([(seed.title, seed.text)])
            )
        return self._articles[seed.version]


def post_texts(count: int = 1000) -> list[str]:
    rng = np.random.default_rng(11)
    words = [word for word in WORDS if word.isalpha()]
    return [" ".join(rng.choice(words, rng.integers(3, 9))) for _ in range(count)]
