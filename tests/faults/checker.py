"""The independent checker: from what was written and what came out, whether anything was lost.

It knows no worker and no clock. What a post must come to is decided by whoever wrote it; what it
came to is read from the topics; an offset that is committed is a promise that is held against both.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

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
