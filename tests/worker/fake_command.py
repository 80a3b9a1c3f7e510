"""What the tests of the command line stand on: an outcome, and an encoder that costs no time."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from encoder import Embeddings
from encoder.model.weights import F32
from encoder.score.lexical import SparseRows


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


Command = Callable[..., Outcome]


@dataclass
class FakeEncoder:
    """Two dimensions: how long a text is, and whether it speaks of a ferry."""

    digest: str = "ab" * 32
    dim: int = 2
    mix: float = 0.0
    has_star: bool = True
    calls: list[tuple[str, list[object]]] = field(default_factory=list)

    def posts(self, texts: Sequence[object]) -> Embeddings:
        return self._embed("posts", texts)

    def skim(self, texts: Sequence[object]) -> Embeddings:
        return self._embed("skim", texts)

    def articles(self, texts: Sequence[object]) -> Embeddings:
        return self._embed("articles", texts)

    def _embed(self, kind: str, texts: Sequence[object]) -> Embeddings:
        self.calls.append((kind, list(texts)))
        rows = [(len(str(t)) + 0.1, 5000.0 * ("ferry" in str(t))) for t in texts]
        dense = np.array(rows, np.float32).reshape(-1, 2)
        dense /= np.linalg.norm(dense, axis=1, keepdims=True)
        n = len(dense)
        lexical = SparseRows(np.arange(n + 1), np.full(n, 7, np.int32), np.ones(n, np.float32))
        return Embeddings(dense, lexical, self.mix, self.digest)

    def match_thresholds(self, articles: Embeddings) -> tuple[F32, F32]:
        cuts, skim_cuts = np.full((2, len(articles)), 0.9, np.float32)
        return cuts, skim_cuts

    def explain(
        self, text: str, articles: Embeddings | None = None, k: int = 0
    ) -> list[tuple[str, float]]:
        """Equal parts for all words, and a rest when there is an article."""
        words = text.split()
        pairs = [(word, 1 / len(words)) for word in words]
        return pairs if articles is None else [*pairs, ("", 0.0)]
