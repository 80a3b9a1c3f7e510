import hashlib
import json

import numpy as np
import pytest

from encoder.embeddings import Background, Embeddings
from encoder.model.weights import F32
from encoder.score.lexical import SparseRows
from encoder.thresholds import thresholds
from tests.worker.small_encoder import (
    ARTICLES,
    ControlTopic,
    book_of,
    exact_scores,
    same,
    small_encoder,
    value,
)
from worker.assembly import build_pipeline
from worker.config import Config, MatchingConfig
from worker.seeds.automatic import OwnBackground, ThresholdRules, passing_posts, total_rate_constant
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet

RATE = 0.02
TOTAL = ThresholdRules(RATE, total=True)
EVERY = {name: {"text": text} for name, text in ARTICLES.items()}


def rows(count: int, seed: int) -> Embeddings:
    """Random unit rows in few dimensions, so that scores are high."""
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(count, 6)).astype(np.float32)
    dense /= np.linalg.norm(dense, axis=1, keepdims=True)
    slots = np.sort(rng.permuted(np.tile(np.arange(9, dtype=np.int32), (count, 1)), axis=1)[:, :3])
    words = SparseRows(
        np.arange(0, 3 * count + 1, 3), slots.ravel(), np.full(3 * count, 3**-0.5, np.float32)
    )
    return Embeddings(dense, words, 0.5, "m")


def constant(background: Embeddings, seeds: Embeddings, cuts: F32) -> float:
    both = np.stack([cuts, cuts], axis=1)
    passing = passing_posts(background, None, seeds, both)
    return total_rate_constant(passing, len(background), RATE)


def passes(background: Embeddings, seeds: Embeddings, cuts: np.ndarray) -> int:
    return int((exact_scores(background, seeds) >= cuts).any(axis=1).sum())


@pytest.mark.parametrize("count", [1, 2, 40, 300])
def test_the_constant_is_the_least_at_which_the_rate_holds(count: int) -> None:
    background, seeds = rows(2_000, 1), rows(count, 2)
    cuts = thresholds(background, seeds, RATE)
    raised = constant(background, seeds, cuts)
    assert passes(background, seeds, cuts + raised + 1e-6) <= 40
    if count == 1:
        assert raised == 0
    else:
        assert passes(background, seeds, cuts + raised - 1e-6) >= 40
        assert passes(background, seeds, cuts) > 40


def test_copies_in_the_background_do_not_exceed_the_rate() -> None:
    posts = rows(100, 1)
    background = Embeddings.concat([posts] * 20)
    seeds = rows(10, 2)
    cuts = thresholds(background, seeds, RATE)
    raised = constant(background, seeds, cuts)
    assert 20 <= passes(background, seeds, (cuts + raised).astype(np.float32) + 1e-7) <= 40


def own_background() -> OwnBackground:
    """Posts of few words, which the articles share."""
    words = sorted({word for text in ARTICLES.values() for word in text.split()})
    rng = np.random.default_rng(5)
    texts = [" ".join(rng.choice(words, 4)) for _ in range(1_000)]
    posts = Background.of_one_reader(small_encoder().posts(texts))
    return OwnBackground(posts, "0123456789ab")


def make(book: ControlTopic, total: bool = True, threshold: float | None = None) -> SeedSet:
    maker = SeedEmbedder(small_encoder(), ThresholdRules(RATE, threshold, total), own_background())
    return maker.make(book.snapshot())


def test_all_automatic_thresholds_are_raised_by_the_same_and_no_others() -> None:
    plain = make(book_of(**EVERY), total=False)
    raised = make(book_of(**EVERY))
    assert raised.raised > 0
    assert raised.thresholds == pytest.approx(plain.thresholds + raised.raised)
    own = book_of(**EVERY | {"game": {"text": ARTICLES["game"], "threshold": 0.3}})
    assert make(own).thresholds[1] == np.float32(0.3)
    assert make(book_of(**EVERY), threshold=0.25).thresholds.tolist() == [0.25] * 4


def test_seeds_with_own_thresholds_and_paused_ones_do_not_count_and_expired_ones_do() -> None:
    three = {name: EVERY[name] for name in EVERY if name != "game"}
    game = EVERY["game"]
    less = make(book_of(**three)).raised
    assert less < make(book_of(**EVERY)).raised
    for silent in (game | {"threshold": 0.3}, game | {"paused": True}):
        assert make(book_of(**three, game=silent)).raised == less
    expired = game | {"expires_at": "2020-01-01T00:00:00Z"}
    assert make(book_of(**three, game=expired)).raised == make(book_of(**EVERY)).raised


def test_changes_give_the_same_set_as_a_fresh_start() -> None:
    book = book_of(**EVERY)
    maker = SeedEmbedder(small_encoder(), TOTAL, own_background())
    maker.make(book.snapshot())
    for key, new in (
        (b"game", None),
        (b"flood", value(text=ARTICLES["flood"], threshold=0.4)),
        (b"more", value(text="music and police in the river")),
        (b"flood", value(text=ARTICLES["flood"])),
    ):
        book.put(key, new)
        made, fresh = maker.make(book.snapshot()), make(book)
        assert same(made, fresh)
        assert made.raised == fresh.raised


def test_the_digest_names_the_total_rate() -> None:
    made = make(book_of(flood=EVERY["flood"]))
    version = hashlib.sha256(
        json.dumps(["", ARTICLES["flood"]], separators=(",", ":")).encode()
    ).hexdigest()[:12]
    rows = [["background", "0123456789ab"], ["flood", version, "total 0.020000"]]
    text = json.dumps(rows, separators=(",", ":"))
    assert made.digest == hashlib.sha256(text.encode()).hexdigest()[:12]


def test_a_part_of_the_seeds_takes_the_constant_of_the_whole_set() -> None:
    whole = make(book_of(**EVERY))
    maker = SeedEmbedder(small_encoder(), TOTAL, own_background())
    part = maker.make(book_of(flood=EVERY["flood"]).snapshot(), whole.raised)
    assert part.thresholds[0] == whole.thresholds[0]


def test_a_rate_that_the_background_cannot_tell_is_refused() -> None:
    maker = SeedEmbedder(small_encoder(), ThresholdRules(1e-6, total=True), own_background())
    made = maker.make(book_of(**EVERY).snapshot())
    assert [each.id for each in made.refused] == sorted(EVERY)
    assert all(each.reason.startswith("matching.total_rate: ") for each in made.refused)


def test_the_configuration_sets_it_in_the_place_of_the_rate_of_each_seed() -> None:
    config = Config(matching=MatchingConfig(background_rate=0.5, total_rate=RATE))
    made = build_pipeline(small_encoder(), config)[1].make(book_of(**EVERY).snapshot())
    alone = SeedEmbedder(small_encoder(), TOTAL).make(book_of(**EVERY).snapshot())
    assert same(made, alone)
