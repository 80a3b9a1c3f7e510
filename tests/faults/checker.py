"""The independent checkers: from what was written and what came out, whether anything was lost.

It knows no worker and no clock. What a post must come to is decided by whoever wrote it; what it
came to is read from the topics; an offset that is committed is a promise that is held against both.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tests.faults.expected_matches import digest
from tests.faults.load import DELETED_STEP, Texts, number_of

Place = tuple[int, int]  # partition and offset


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that was written, and what it must come to: matches, a dead letter, or nothing."""

    place: Place
    value: bytes | None  # what a dead letter of it must hold
    match_ids: frozenset[str] = frozenset()
    reason: str | None = None
    instead: frozenset[str] | None = None  # its matches if other seeds stood when it was read

    @property
    def outcomes(self) -> list[frozenset[str]]:
        """The sets of matches it may come to; an empty one is not a record."""
        return [self.match_ids] if self.instead is None else [self.match_ids, self.instead]


@dataclass(frozen=True, slots=True)
class Named:
    match_id: str
    score: float
    threshold: float


@dataclass(frozen=True, slots=True)
class MatchSeen:
    place: Place
    matches: tuple[Named, ...]
    matched: int
    content: str  # all of it but the time of its making

    @property
    def match_ids(self) -> list[str]:
        return sorted(each.match_id for each in self.matches)


@dataclass(frozen=True, slots=True)
class LetterSeen:
    place: Place
    reason: str
    value: bytes | None


@dataclass(frozen=True, slots=True)
class History:
    sent: Sequence[Sent]
    matches: Sequence[MatchSeen]
    letters: Sequence[LetterSeen]
    committed: Mapping[int, int] = field(default_factory=dict)  # partition: next offset


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checker found: nothing in `complaints` means nothing lost and nothing wrong."""

    posts: int
    matches: int
    letters: int
    missing: int
    duplicates: int
    complaints: tuple[str, ...]


def check(history: History, allowed_duplicates: int = 0, *, drained: bool = True) -> Verdict:
    """Hold a history against what its messages must come to.

    A history that is not drained yet, as after a crash, may lack what is not committed.
    """
    sent = {each.place: each for each in history.sent}
    missing = list(_missing(history, sent, drained))
    duplicates = _duplicates(history)
    complaints = [*missing, *_wrong_matches(history, sent), *_wrong_letters(history, sent)]
    complaints += _unequal(history)
    complaints += _commits(history, drained)
    if duplicates > allowed_duplicates:
        complaints.append(f"{duplicates} duplicates, {allowed_duplicates} are allowed")
    return Verdict(
        len(sent), len(history.matches), len(history.letters), len(missing), duplicates,
        tuple(complaints),
    )  # fmt: skip


def _missing(history: History, sent: Mapping[Place, Sent], drained: bool) -> Iterator[str]:
    """What must have come of each message whose offset is committed, and has not."""
    matched = {each.place for each in history.matches}
    lettered = {each.place for each in history.letters}
    for place, each in sent.items():
        partition, offset = place
        if not drained and offset >= history.committed.get(partition, 0):
            continue
        if all(each.outcomes) and place not in matched:
            yield f"missing: the match of {place}"
        if each.reason and place not in lettered:
            yield f"missing: the dead letter of {place} ({each.reason})"


def _duplicates(history: History) -> int:
    matched = Counter(each.place for each in history.matches)
    lettered = Counter(each.place for each in history.letters)
    return sum(n - 1 for n in [*matched.values(), *lettered.values()])


def _wrong_matches(history: History, sent: Mapping[Place, Sent]) -> Iterator[str]:
    for records in history.matches:
        outcomes = sent[records.place].outcomes if records.place in sent else []
        expected = [sorted(ids) for ids in outcomes if ids]
        if not expected:
            yield f"unexpected: {records.place} must not match"
        elif records.match_ids not in expected or records.matched != len(records.match_ids):
            answer = " or ".join(map(str, expected))
            yield f"wrong ids: {records.place} has {records.match_ids}, not {answer}"
        for each in records.matches:
            if not np.float32(each.score) >= np.float32(each.threshold):
                yield f"below its threshold: {records.place}, {each.score} < {each.threshold}"


def _wrong_letters(history: History, sent: Mapping[Place, Sent]) -> Iterator[str]:
    for records in history.letters:
        if records.place not in sent or sent[records.place].reason is None:
            yield f"unexpected: {records.place} is a dead letter ({records.reason})"
            continue
        expected = sent[records.place]
        if records.reason != expected.reason:
            yield f"wrong reason: {records.place} has {records.reason}, not {expected.reason}"
        if records.value != expected.value:
            yield f"changed: the dead letter of {records.place} has another value"


def _unequal(history: History) -> Iterator[str]:
    """Records of one post that differ in more than the time of their making."""
    content: dict[Place, str] = {}
    for records in history.matches:
        if content.setdefault(records.place, records.content) != records.content:
            yield f"unequal: two records of {records.place} differ"


def _commits(history: History, drained: bool) -> Iterator[str]:
    ends: dict[int, int] = {}
    for each in history.sent:
        partition, offset = each.place
        ends[partition] = max(ends.get(partition, 0), offset + 1)
    for partition, end in ends.items():
        committed = history.committed.get(partition, 0)
        if committed > end:
            yield f"committed too far: partition {partition} at {committed}, {end} were written"
        if drained and committed < end:
            yield f"not drained: partition {partition} at {committed} of {end}"


NUMBER = re.compile(rb'"rkey":"(\d+)"')


class Counts(NamedTuple):
    expected: int  # posts that must come out
    missing: int
    twice: int
    wrong: int
    pruned: int  # posts that have a deletion record
    unpruned: int  # posts that matched and were deleted, without one


class Tally:
    """How often each post came out, in one byte: for more posts than a history can hold."""

    def __init__(self, texts: Texts) -> None:
        self._texts, self._counts, self.wrong = texts, bytearray(), list[str]()
        self._pruned = set[int]()

    def match(self, record: Mapping[str, Any]) -> None:
        self._count(number_of(record["post"]["id"]), self._fault(record))

    def letter(self, value: bytes | None, reason: str) -> None:
        found = NUMBER.search(value or b"")
        number = int(found[1]) if found else 0
        is_due = number % len(self._texts.texts) in self._texts.unreadable and reason == "bad_json"
        self._count(number, "" if is_due else f"a dead letter: {reason}, {value!r}")

    def deletion(self, record: Mapping[str, Any]) -> None:
        self._pruned.add(number_of(record["post"]["id"]))

    def _count(self, number: int, fault: str) -> None:
        self.wrong += [fault] if fault else []
        self._counts.extend(bytes(max(0, number + 1 - len(self._counts))))
        self._counts[number] = min(self._counts[number] + 1, 255)

    def _fault(self, record: Mapping[str, Any]) -> str:
        """What is wrong with the match of a post, or nothing."""
        texts, post, matches = self._texts, record["post"], record["matches"]
        number = number_of(post["id"])
        row = number % len(texts.texts)
        named = ["bluesky", post["id"], texts.text(number)]
        met = [(match["seed_id"], match["seed_version"]) for match in matches]
        due = {seed: digest([*named, *seed, texts.model])[:32] for seed in met}
        stated = texts.matches.get(record["seed_set"])
        is_right = (
            stated is not None and row not in texts.unreadable and bool(met)
            and set(met) == stated[row] and post["text"] == named[2]
            and record["matched"] == len(matches) == len(due)
            and [match["match_id"] for match in matches] == list(due.values())
        )  # fmt: skip
        return "" if is_right else f"post {post['id']} meets {met} in {record['seed_set']}"

    def due(self, sent: int) -> NDArray[np.bool_]:
        """Of so many posts, those of which something must come out under every set of seeds."""
        met = zip(*self._texts.matches.values(), strict=True)
        due = np.array([all(row) for row in met])
        due[list(self._texts.unreadable)] = True
        return np.resize(due, sent)

    def to_prune(self, sent: int) -> set[int]:
        """Of so many posts, those that matched and were deleted."""
        deleted = range(0, self._texts.deleted(sent) * DELETED_STEP, DELETED_STEP)
        matched = {n for n in deleted if n < len(self._counts) and self._counts[n]}
        return {n for n in matched if n % len(self._texts.texts) not in self._texts.unreadable}

    def is_pruned(self, sent: int) -> bool:
        return self.to_prune(sent) <= self._pruned

    def verdict(self, sent: int) -> Counts:
        counts = np.zeros(max(sent, len(self._counts)), np.uint8)
        counts[: len(self._counts)] = np.frombuffer(self._counts, np.uint8)
        must, unwritten = self.due(sent), int(np.count_nonzero(counts[sent:]))
        missing = int(np.count_nonzero(must & (counts[:sent] == 0)))
        twice = int(np.maximum(counts, 1).sum()) - len(counts)
        due = self.to_prune(sent)
        wrong = len(self.wrong) + unwritten + len(self._pruned - due)
        return Counts(
            int(must.sum()), missing, twice, wrong, len(self._pruned), len(due - self._pruned)
        )
