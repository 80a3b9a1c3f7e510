"""Story groups: matches that repeat one text share a group, named by the first of them.

One pass over the matches of a partition in offset order. Each is compared, by the embeddings of the
matching, with the first matches of recent groups. It joins the oldest group that it repeats, or
begins its own. It is not compared with other members: chains of small changes would merge different
stories (docs/methods/story-groups.md).
"""

from collections import OrderedDict
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.model.weights import I64
from encoder.score.exact import pair_scores, rounding
from encoder.support.jit import jit
from worker.match.records import StoryGroup, StoryKey

MIN_STORY_SCORE = np.float32(0.8)
MAX_GROUPS = 1024
MAX_GROUP_BYTES = 2**21
BLOCK_MATCHES = 128
FIRST_OVERHEAD_BYTES = 1024
WORD_TABLE_SIZE = 2**12

RepeatKey = tuple[bytes, frozenset[str]]  # what a vector holds, and the events that it matches


class FirstMatch(NamedTuple):
    key: StoryKey
    size: int


class StoryGroups:
    """The recent groups of one partition, within bounds.

    A match joins a group only if the group's first match has all of its events, so a reader of the
    first matches misses no event. The result depends on the matches and their order, not on the
    batches.
    """

    def __init__(self, max_groups: int = MAX_GROUPS, max_bytes: int = MAX_GROUP_BYTES) -> None:
        self._max_groups, self._room = max_groups, max_bytes
        self._count = 0  # of matches: the number of the next one
        # By number, the least recently repeated first.
        self._firsts = OrderedDict[int, FirstMatch]()
        self._vectors: Embeddings | None = None  # of firsts, and of a few that are forgotten
        self._numbers: list[int] = []  # of these rows, rising

    def __len__(self) -> int:
        return len(self._firsts)

    def place(self, matches: Sequence[StoryKey], vectors: Embeddings) -> list[StoryGroup]:
        """The group of each match, in order; `vectors` has one row for each."""
        groups: list[StoryGroup] = []
        keys = list(zip(row_bytes(vectors), (match.events for match in matches), strict=True))
        firsts: dict[RepeatKey, int] = {}
        while len(groups) < len(matches):
            span = slice(len(groups), len(groups) + BLOCK_MATCHES)
            groups += self._place(matches[span], vectors[span], keys[span], firsts)
        return groups

    def _place(
        self, matches: Sequence[StoryKey], vectors: Embeddings, keys: Sequence[RepeatKey],
        firsts: dict[RepeatKey, int],
    ) -> list[StoryGroup]:  # fmt: skip
        """The groups of these matches, up to a repeat that must be compared again.

        `firsts` maps the vector and events of a match to the first match of its group. While that
        is remembered, a repeat joins the same group: older groups can only have been dropped,
        others are younger.
        """
        earlier = vectors[:0] if self._vectors is None else self._vectors
        occurs = {key: row for row, key in reversed(list(enumerate(keys)))}
        fresh = sorted(row for key, row in occurs.items() if firsts.get(key) not in self._firsts)
        fresh_vectors = vectors[fresh]
        older: dict[int, list[int]] = {row: [] for row in fresh}
        for row_index, other in find_repeats(fresh_vectors, earlier):
            older[fresh[row_index]].append(self._numbers[other])
        same = find_repeats(fresh_vectors, fresh_vectors)
        for row_index, other in same:
            if other < row_index:
                older[fresh[row_index]].append(self._count + fresh[other])
        # A text without words does not repeat itself.
        has_words = {fresh[row_index] for row_index, other in same if row_index == other}
        sizes = row_sizes(vectors).tolist()
        groups: list[StoryGroup] = []
        for row, (match, key) in enumerate(zip(matches, keys, strict=True)):
            first = firsts.get(key, -1)
            if row not in older and first not in self._firsts:
                break
            number = self._count + row
            first_match = FirstMatch(match, FIRST_OVERHEAD_BYTES + sizes[row])
            first, group = self._join(number, first_match, older.get(row, [first]))
            groups.append(group)
            if first != number or row in has_words:
                firsts[key] = first
        self._keep(earlier, vectors[: len(groups)])
        return groups

    def _join(
        self, number: int, match: FirstMatch, candidates: Sequence[int]
    ) -> tuple[int, StoryGroup]:
        """The number of the group's first match, and the group.

        `candidates` are the numbers of the matches that this one repeats, oldest first.
        """
        for other in candidates:
            first = self._firsts.get(other)
            if first is not None and match.key.events <= first.key.events:
                self._firsts.move_to_end(other)
                name = first.key.match_id
                return other, StoryGroup(name, name == match.key.match_id)  # it may have come twice
        self._firsts[number] = match
        self._room -= match.size
        while self._room < 0 or len(self._firsts) > self._max_groups:
            self._room += self._firsts.popitem(last=False)[1].size
        return number, StoryGroup(match.key.match_id, True)

    def _keep(self, earlier: Embeddings, vectors: Embeddings) -> None:
        """Adds the vectors of new first matches, and sometimes drops forgotten ones."""
        rows = [row for row in range(len(vectors)) if self._count + row in self._firsts]
        numbers = self._numbers + [self._count + row for row in rows]
        self._count += len(vectors)
        if rows:
            earlier = Embeddings.concat([earlier, vectors[rows]])
        if len(numbers) - len(self._firsts) > min(BLOCK_MATCHES, len(self._firsts)):
            alive = [index for index, number in enumerate(numbers) if number in self._firsts]
            earlier, numbers = earlier[alive], [numbers[index] for index in alive]
        self._vectors, self._numbers = earlier, numbers


def find_repeats(posts: Embeddings, others: Embeddings) -> list[tuple[int, int]]:
    """The pairs of rows that repeat one text, in order. Few share enough words; these are scored.

    The score is summed in a fixed order, so that it does not depend on the other rows.
    """
    mix = posts.mix
    # The least cosine of the words, if the other part is the same.
    least = (MIN_STORY_SCORE - (1 - mix)) / mix if mix else -1.0
    slack = rounding(posts.dense.shape[1] + int(np.diff(others.lexical.indptr).max(initial=0)))
    may = may_share(posts.lexical.arrays, others.lexical.arrays, float(least - slack))
    pairs: I64 = np.argwhere(may)
    close = pairs[pair_scores(posts, others, pairs) >= MIN_STORY_SCORE]
    return [(row, other) for row, other in close.tolist()]


@jit()
def may_share(mine: Any, theirs: Any, least: float) -> NDArray[np.bool_]:
    """Whether the product of the words of two rows may reach this: [n, m].

    Words that collide in the small table only make the bound larger.
    """
    rows, others = len(mine.indptr) - 1, len(theirs.indptr) - 1
    heads = np.full(WORD_TABLE_SIZE, -1, np.int32)  # the first entry of each list
    following, row_of = np.empty((2, len(mine.slots)), np.int32)
    for row in range(rows):
        for e in range(mine.indptr[row], mine.indptr[row + 1]):
            place = mine.slots[e] % WORD_TABLE_SIZE
            following[e], heads[place], row_of[e] = heads[place], e, row
    out, sums = np.empty((rows, others), np.bool_), np.empty(rows, np.float32)
    for other in range(others):
        sums[:] = 0
        for e in range(theirs.indptr[other], theirs.indptr[other + 1]):
            entry = heads[theirs.slots[e] % WORD_TABLE_SIZE]
            while entry >= 0:
                sums[row_of[entry]] += mine.weights[entry] * theirs.weights[e]
                entry = following[entry]
        for row in range(rows):
            out[row, other] = sums[row] >= least
    return out


def row_bytes(vectors: Embeddings) -> list[bytes]:
    """Equal bytes mean equal vectors."""
    words, ends = vectors.lexical, vectors.lexical.indptr.tolist()
    return [
        dense.tobytes() + words.slots[start:end].tobytes() + words.weights[start:end].tobytes()
        for dense, (start, end) in zip(vectors.dense, pairwise(ends), strict=True)
    ]


def row_sizes(vectors: Embeddings) -> I64:
    """[n] bytes"""
    words = np.diff(vectors.lexical.indptr)
    cost: I64 = vectors.dense.shape[1] * 4 + words * 8
    return cost
