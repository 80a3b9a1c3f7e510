import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.errors import InputError
from tests.worker.small_encoder import ControlTopic, same, small_encoder, value
from worker.match.matcher import Matcher
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.set import SeedSet, SeedVectors

WORDS = ["storm", "flood", "river", "city", "match", "game", "music", "cat", "police", "fire"]
TEXTS = [f"{a} {b} {a}" for a in WORDS for b in WORDS]
NO_WORD = "http://t.co/x"  # which the model refuses
POSTS = [f"{a} {b} {c}" for a in WORDS for b in WORDS for c in WORDS[::3]]
IDS = st.integers(0, 30).map("{:02d}".format)
CHANGES = st.lists(
    st.dictionaries(IDS, st.none() | st.sampled_from([NO_WORD, *TEXTS]), min_size=1, max_size=12),
    min_size=1, max_size=8,
)  # fmt: skip


def matches(seeds: SeedSet) -> list[np.ndarray]:
    posts = small_encoder().posts(POSTS)
    pairs = Matcher(seeds, most=3).match(posts, np.zeros(len(posts), np.int64))
    return [pairs.posts, pairs.seeds, pairs.scores, pairs.counts, pairs.hits]


@settings(max_examples=60)
@given(CHANGES)
def test_changes_lead_to_the_same_set_and_matches_as_a_fresh_start(
    changes: list[dict[str, str | None]],
) -> None:
    book, maker = ControlTopic(), SeedEmbedder(small_encoder(), ThresholdRules(0.05))
    for change in changes:
        for name, text in change.items():
            book.put(name.encode(), None if text is None else value(text=text))
        made = maker.make(book.snapshot())
        fresh = SeedEmbedder(small_encoder(), ThresholdRules(0.05)).make(book.snapshot())
        assert same(made, fresh)
        for one, other in zip(matches(made), matches(fresh), strict=True):
            np.testing.assert_array_equal(one, other)


def test_a_changed_seed_leaves_the_large_part_as_it_is() -> None:
    book, maker = ControlTopic(), SeedEmbedder(small_encoder(), ThresholdRules(0.05))
    for number, text in enumerate(TEXTS):
        book.put(f"{number:03d}".encode(), value(text=text))
    large = maker.make(book.snapshot()).vectors.parts[0]
    for number in range(20):
        book.put(f"{number:03d}".encode(), value(text=f"{TEXTS[number]} fire"))
        parts = maker.make(book.snapshot()).vectors.parts
        assert parts[0] is large
        assert sum(map(len, parts[1:])) <= number + 1
        assert len(parts) <= 4


def test_rows_that_are_used_no_more_are_removed() -> None:
    book, maker = ControlTopic(), SeedEmbedder(small_encoder(), ThresholdRules(0.05))
    for number in range(1_000):
        book.put(f"{number:04d}".encode(), value(text=f"{TEXTS[number % 100]} x{number}"))
    maker.make(book.snapshot())
    for number in range(600):
        book.put(f"{number:04d}".encode(), None)
    made = maker.make(book.snapshot())
    assert [len(part) for part in made.vectors.parts] == [len(made)] == [400]


def test_there_is_at_least_one_part() -> None:
    none = np.zeros(0, np.int64)
    with pytest.raises(InputError):
        SeedVectors((), none.astype(np.int32), none)
