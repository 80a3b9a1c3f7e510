import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from encoder.embeddings import Embeddings, unit_rows
from encoder.score.lexical import SLOTS, SparseRows
from tests.worker.small_encoder import exact_scores
from worker.match.groups import (
    BLOCK_MATCHES,
    FIRST_OVERHEAD_BYTES,
    MAX_GROUPS,
    MIN_STORY_SCORE,
    WORD_TABLE_SIZE,
    StoryGroups,
)
from worker.match.records import StoryGroup, StoryKey

SLOTS_USED = (3, 77, 99, 3 + WORD_TABLE_SIZE, SLOTS - 1)  # two of them share a place of the table


def embeddings(rng: np.random.Generator, count: int, mix: float, noise: float) -> Embeddings:
    """Rows around a few stories, each somewhat off."""
    stories = rng.normal(size=(4, 8))
    words = rng.random((4, len(SLOTS_USED))) * (rng.random((4, len(SLOTS_USED))) < 0.6)
    which = rng.integers(0, 4, count)
    dense = unit_rows((stories[which] + noise * rng.normal(size=(count, 8))).astype(np.float32))
    near = np.abs(words[which] + noise * words[which] * rng.normal(size=(count, len(SLOTS_USED))))
    indptr = np.cumsum([0, *(near > 0).sum(axis=1)]).astype(np.int64)
    slots = np.array(SLOTS_USED, np.int32)[np.nonzero(near)[1]]
    rows = SparseRows(indptr, slots, near[near > 0].astype(np.float32)).unit()
    return Embeddings(dense, rows, mix, "m")


def slow(keys: list[StoryKey], vectors: Embeddings, most: int) -> list[StoryGroup]:
    scores, lately, result = exact_scores(vectors, vectors), list[int](), list[StoryGroup]()
    for n, match in enumerate(keys):
        same = [
            m for m in lately if scores[n, m] >= MIN_STORY_SCORE and match.events <= keys[m].events
        ]
        first = min(same, default=n)
        if first in lately:
            lately.remove(first)
        lately = [*lately, first][-most:]
        result.append(StoryGroup(keys[first].match_id, first == n))
    return result


@given(
    st.integers(0, 2**32), st.integers(0, 40), st.sampled_from([0.0, 0.15, 0.6, 0.75]),
    st.sampled_from([0.0, 0.1, 0.4]), st.integers(1, 6), st.lists(st.integers(1, 9)),
)  # fmt: skip
def test_groups_are_those_of_a_slow_loop_in_any_batching(
    seed: int, count: int, mix: float, noise: float, most: int, sizes: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    vectors = embeddings(rng, count, mix, noise)
    assume((np.abs(exact_scores(vectors, vectors) - MIN_STORY_SCORE) > 1e-5).all())
    events = [frozenset(rng.choice(["a", "b"], rng.integers(1, 3)).tolist()) for _ in range(count)]
    keys = [StoryKey(str(n), events[n]) for n in range(count)]
    groups, result, start = StoryGroups(most), list[StoryGroup](), 0
    for size in [*sizes, count]:
        rows = list(range(start, min(start + size, count)))
        result += groups.place([keys[row] for row in rows], vectors[rows])
        assert len(groups) <= most
        start += len(rows)
    assert result == slow(keys, vectors, most)


def distinct(count: int) -> Embeddings:
    """Posts that have nothing in common but their dense half."""
    slots = np.arange(count, dtype=np.int32)
    indptr = np.arange(count + 1, dtype=np.int64)
    rows = SparseRows(indptr, slots, np.ones(count, np.float32))
    return Embeddings(unit_rows(np.ones((count, 4), np.float32)), rows, 0.5, "m")


def test_memory_is_bounded_in_stories_and_bytes() -> None:
    vectors = distinct(MAX_GROUPS + 3 * BLOCK_MATCHES)
    keys = [StoryKey(str(n), frozenset("a")) for n in range(len(vectors))]
    groups = StoryGroups()
    assert all(group.new for group in groups.place(keys, vectors))
    assert len(groups) == MAX_GROUPS
    assert not groups.place([StoryKey("copy", frozenset("a"))], vectors[-1:])[0].new
    assert groups.place([StoryKey("copy", frozenset("a"))], vectors[:1])[0].new  # long forgotten

    room_for_two = StoryGroups(max_bytes=2 * (FIRST_OVERHEAD_BYTES + 4 * 4 + 8))
    for row in range(9):
        room_for_two.place(keys[row : row + 1], vectors[row : row + 1])
    assert len(room_for_two) == 2
    assert room_for_two._vectors is not None
    assert len(room_for_two._vectors) <= 2 * 2  # as many forgotten ones, and not up to MAX_GROUPS
    none = StoryGroups(max_bytes=FIRST_OVERHEAD_BYTES)
    assert [group.new for group in none.place(keys[:2], vectors[[0, 0]])] == [True, True]
    assert len(none) == 0


def test_a_redelivered_first_match_is_still_new() -> None:
    vectors, key = distinct(1), StoryKey("0", frozenset("a"))
    assert StoryGroups().place([key, key], vectors[[0, 0]]) == [StoryGroup("0", True)] * 2
