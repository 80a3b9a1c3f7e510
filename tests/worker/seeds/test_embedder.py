import math
from collections.abc import Sequence

import numpy as np
import pytest

from encoder import Embeddings
from encoder.model.weights import F32
from encoder.text.clean import Article
from encoder.thresholds import EVERY_POST
from tests.encoder.small_model import background
from tests.encoder.small_transformer import two_readers
from tests.worker.small_encoder import ARTICLES, ControlTopic, book_of, same, small_encoder, value
from worker.seeds.automatic import ThresholdRules, split_background
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.record import json_digest


def keys(rows: Embeddings) -> list[tuple[bytes, bytes]]:
    ends = rows.lexical.indptr
    return [
        (rows.dense[i].tobytes(), rows.lexical.slots[ends[i] : ends[i + 1]].tobytes())
        for i in range(len(rows))
    ]


def test_each_background_post_is_on_one_side_with_its_copies() -> None:
    rng = np.random.default_rng(3)
    texts = background(400)
    posts = small_encoder().posts([*texts, *texts[:50]])
    one, other = split_background(posts)
    assert sorted(keys(one) + keys(other)) == sorted(keys(posts))
    assert not set(keys(one)) & set(keys(other))
    assert 25 < len(one) < 100
    again, _ = split_background(posts[rng.permutation(len(posts))])
    assert sorted(keys(again)) == sorted(keys(one))


class Counting:
    def __init__(self, mix: float = 0.6) -> None:
        self.real = small_encoder(mix)
        self.digest, self.dim, self.mix = self.real.digest, self.real.dim, self.real.mix
        self.background, self.has_star = self.real.background, False
        self.embedded: list[Article] = []
        self.cut = 0
        self.fails = False

    def articles(self, texts: Sequence[Article]) -> Embeddings:
        if self.fails:
            raise MemoryError
        self.embedded += texts
        return self.real.articles(texts)

    def thresholds(
        self, articles: Embeddings, rate: float, background: Embeddings, skim: bool
    ) -> F32:
        self.cut += len(articles)
        return self.real.thresholds(articles, rate, background, skim)


def embedder(enc: Counting, rate: float = 0.01, threshold: float | None = None) -> SeedEmbedder:
    return SeedEmbedder(enc, ThresholdRules(rate, threshold))  # type: ignore[arg-type]


def book() -> ControlTopic:
    return book_of(**{name: {"text": text} for name, text in ARTICLES.items()})


def test_only_new_articles_and_those_that_return_are_embedded() -> None:
    enc, seeds = Counting(), book()
    maker = embedder(enc)
    maker.make(seeds.snapshot())
    assert (len(enc.embedded), enc.cut) == (4, 4)
    seeds.put(b"flood", value(text="river flood", title="new"))
    seeds.put(b"game", None)
    seeds.put(b"raid", value(text=ARTICLES["raid"], event="city", expires_at=None))
    seeds.put(b"twin", value(text=ARTICLES["pets"]))
    made = maker.make(seeds.snapshot())
    assert enc.embedded[4:] == [("new", "river flood")]
    assert enc.cut == 5
    assert [seed.id for seed in made.seeds] == ["flood", "pets", "raid", "twin"]
    seeds.put(b"game", value(text=ARTICLES["game"]))  # which was removed
    assert len(maker.make(seeds.snapshot())) == 5
    assert len(enc.embedded) == 6


def test_an_embedder_for_another_set_caches_its_own_seeds_and_shares_the_background() -> None:
    enc, seeds = Counting(), book()
    maker = embedder(enc)
    whole = maker.make(seeds.snapshot())
    other = maker.for_another_set()
    assert other.automatic is maker.automatic
    part = other.make(book_of(flood={"text": ARTICLES["flood"]}).snapshot())
    assert [seed.id for seed in part.seeds] == ["flood"]
    assert len(enc.embedded) == 5
    assert same(maker.make(seeds.snapshot()), whole)
    assert len(enc.embedded) == 5


def test_an_error_of_the_model_leaves_earlier_embeddings() -> None:
    enc, seeds = Counting(), book()
    maker = embedder(enc)
    first = maker.make(seeds.snapshot())
    enc.fails = True
    seeds.put(b"new", value(text="storm"))
    with pytest.raises(MemoryError):
        maker.make(seeds.snapshot())
    seeds.put(b"new", None)
    assert same(maker.make(seeds.snapshot()), first)
    assert len(enc.embedded) == 4


def test_a_rate_finer_than_the_background_refuses_only_automatic_seeds() -> None:
    seeds = book_of(own={"text": ARTICLES["raid"], "threshold": 0.3}, bare={"text": "river flood"})
    made = embedder(Counting(), 1e-9).make(seeds.snapshot())
    assert [seed.id for seed in made.seeds] == ["own"]
    assert [seed.id for seed in made.refused] == ["bare"]
    assert made.refused[0].reason.startswith("matching.background_rate: 1e-09 is finer than ")
    assert not embedder(Counting(), 1e-9, threshold=0.2).make(seeds.snapshot()).refused


def test_articles_whose_versions_collide_keep_their_own_vectors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twelve digits are soon made to collide; a vector goes by all sixty-four."""
    monkeypatch.setattr(
        "worker.seeds.record.json_digest", lambda value: f"{'0' * 12}{json_digest(value)[12:]}"
    )
    maker = embedder(Counting())
    maker.make(book_of(a={"text": ARTICLES["flood"]}).snapshot())
    made = maker.make(book().snapshot())
    assert {seed.version for seed in made.seeds} == {"0" * 12}
    fresh = embedder(Counting()).make(book().snapshot())
    np.testing.assert_array_equal(made.embeddings.dense, fresh.embeddings.dense)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (np.full(12, np.nan, np.float32), "text: the model gives it no finite vector"),
        (np.zeros(12, np.float32), "text: holds no word that the model reads"),
    ],
)
def test_a_seed_without_a_usable_vector_is_refused(row: F32, reason: str) -> None:
    class Odd(Counting):
        def articles(self, texts: Sequence[Article]) -> Embeddings:
            made = super().articles(texts)
            dense, words = made.dense.copy(), made.lexical
            for i, text in enumerate(texts):
                if text[1] == "storm":
                    dense[i] = row
                    words = type(words).empty(len(texts))
            return Embeddings(dense, words, made.mix, made.digest)

    seeds = book_of(good={"text": "flood"}, odd={"text": "storm"})
    made = embedder(Odd()).make(seeds.snapshot())
    assert [seed.id for seed in made.seeds] == ["good"]
    assert [(seed.id, seed.reason) for seed in made.refused] == [("odd", reason)]


@pytest.mark.parametrize(
    ("rate", "read_factor"), [(0.021, math.inf), (0.09, math.inf), (0.36, math.inf), (0.91, 5)]
)
def test_every_post_is_read_where_the_factor_says_so(rate: float, read_factor: float) -> None:
    """1 / rate times the rate may be below 1 by a rounding."""
    rules = ThresholdRules(rate, read_factor=read_factor)
    made = SeedEmbedder(two_readers(), rules).make(book().snapshot())
    assert made.skim_thresholds is not None
    assert (made.skim_thresholds == EVERY_POST).all()
    background = two_readers().background.read
    reached = (background.similarity(made.embeddings) >= made.thresholds).sum(axis=0)
    assert (reached >= round(rate * len(background))).all()


def test_a_skim_threshold_is_computed_in_double_precision_and_rounded_once() -> None:
    own = [0.001 * number for number in range(100, 200)]
    seeds = {
        f"s{number:03}": {"text": ARTICLES["flood"], "threshold": threshold}
        for number, threshold in enumerate(own)
    }
    made = SeedEmbedder(two_readers(), ThresholdRules(0.05)).make(book_of(**seeds).snapshot())
    automatic, skim = (
        float(part[0]) for part in two_readers().match_thresholds(made.embeddings[:1], 0.05)
    )
    assert made.skim_thresholds is not None
    expected = [np.float32(skim + min(threshold - automatic, 0.0)) for threshold in own]
    assert made.skim_thresholds.tolist() == [float(threshold) for threshold in expected]


def test_an_entry_of_the_rules_is_sorted_among_the_seeds_by_all_that_it_says() -> None:
    rules = ThresholdRules(0.01, 0.4, compare=("text",))
    made = SeedEmbedder(small_encoder(), rules).make(
        book_of(compare={"text": ARTICLES["flood"]}, z={"text": ARTICLES["game"]}).snapshot()
    )
    seeds = [[seed.id, seed.version, "0.400000"] for seed in made.seeds]
    rows = sorted([*seeds, ["compare", "text"], ["rate", "0.010000"]])
    assert made.digest == json_digest(rows)[:12]
