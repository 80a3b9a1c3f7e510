"""One batch: decode → encode → match → records to send, for the worker and the offline filter."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.model.weights import F32
from worker import crashpoint
from worker.config import DEFAULT_LIMITS, Limits
from worker.match.halves import by_halves, out_of_memory
from worker.match.matcher import Found, Matcher
from worker.match.records import (
    Match,
    Message,
    Record,
    to_dead_letter,
    to_match,
    to_match_record,
    why_tokens,
)
from worker.posts.read import FORMS, PassedOver, Post, Reason, Rejected, read_post
from worker.posts.read import Outcome as Read
from worker.posts.unreadable import Unreadable
from worker.seeds.set import SeedSet

__all__ = ["Message", "Outcome", "Pipeline", "Record", "Settings"]

ORDINARY = b'{"id": "1", "text": "first words"}'
BEFORE_ALL = np.iinfo(np.int64).min
STAGES = ("decode", "encode", "match")


@dataclass(frozen=True, slots=True)
class Settings:
    """What the configuration says of a batch."""

    form: str = "auto"
    limits: Limits = DEFAULT_LIMITS
    max_matches: int = 10
    why: bool = True

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise InputError(f"form: {self.form!r} is unknown; use one of {', '.join(FORMS)}")
        if self.max_matches < 1:
            raise InputError(f"max_matches: {self.max_matches} is less than 1")


@dataclass
class Outcome:
    """What a batch came to: the records to send, in the order of their messages, and counts."""

    read: int = 0
    records: list[Record] = field(default_factory=list)
    matched: int = 0  # posts
    without_seeds: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)
    rejected: Counter[Reason] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)  # matches
    best: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))

    def count(self, found: Found, seeds: SeedSet) -> None:
        """Take over the best scores, and the matches of every event."""
        self.best = np.concatenate([self.best, found.best])
        for seed in np.flatnonzero(found.hits).tolist():
            self.events[seeds.seeds[seed].event] += int(found.hits[seed])


@dataclass(slots=True)
class Matched:
    """A post that matches, with the best of its seeds by falling score."""

    row: int  # which message
    count: int  # seeds that it matches
    seeds: list[int]  # the best of them
    scores: list[np.float32]
    why: list[list[tuple[str, float]]] = field(default_factory=list)


class Batch:
    """The messages of one batch, on their way through the stages."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.posts: dict[int, Post] = {}
        self.outcome = Outcome(read=len(messages))

    def reject(self, index: int, reason: Reason, detail: str) -> None:
        """Make a message a dead letter."""
        self.posts.pop(index, None)
        self.outcome.rejected[reason] += 1
        self.outcome.records.append(to_dead_letter(index, self.messages[index], reason, detail))

    def pass_over(self, index: int, why: str) -> None:
        """Leave out a message that there is nothing to do with."""
        self.posts.pop(index, None)
        self.outcome.passed_over[why] += 1


class Pipeline:
    """What is done with a batch, whoever brings it: a pure function of messages and seeds.

    Whoever wants to know how long each stage takes brings a timer.
    """

    def __init__(
        self, enc: Encoder, settings: Settings, timer: Callable[[], float] = lambda: 0.0
    ) -> None:
        self._enc, self._settings, self._timer = enc, settings, timer

    def run(self, messages: Sequence[Message], seeds: SeedSet, now: Callable[[], str]) -> Outcome:
        """Work on all messages; `now` says when, as RFC 3339."""
        batch, started = Batch(messages), self._timer()
        self._decode(batch)
        started = self._lap(batch, "decode", started)
        crashpoint.reached("decoded")
        if not len(seeds):
            batch.outcome.without_seeds = len(batch.posts)
            batch.posts.clear()
        parts = list(self._encode(batch, seeds))
        started = self._lap(batch, "encode", started)
        crashpoint.reached("encoded")
        found = [one for part in parts for one in self._match(batch, *part, seeds)]
        self._render(batch, found, seeds, now)
        self._lap(batch, "match", started)
        crashpoint.reached("matched")
        return batch.outcome

    def prepare(self, seeds: SeedSet) -> None:
        """Work on a post, so that what is compiled at its first use is there before the first."""
        posts = self._enc.posts(["first words"])
        Matcher(seeds, self._enc.threads).match(posts, np.zeros(1, np.int64))
        if len(seeds) and self._settings.why:
            self._enc.contributions(["first words"], seeds.embeddings, [(0, 0)])

    def _lap(self, batch: Batch, stage: str, started: float) -> float:
        ended = self._timer()
        batch.outcome.seconds[stage] = ended - started
        return ended

    def _decode(self, batch: Batch) -> None:
        form, limits = self._settings.form, self._settings.limits
        for index, message in enumerate(batch.messages):
            if isinstance(message, Unreadable):
                said = f"offsets {message.offsets}: {message.detail}"
                batch.reject(index, Reason(message.why), said)
                continue
            found = _read(message.value, form, limits)
            if isinstance(found, Post):
                batch.posts[index] = found
            elif isinstance(found, PassedOver):
                batch.pass_over(index, found.why)
            else:
                batch.reject(index, found.reason, found.detail)

    def _encode(self, batch: Batch, seeds: SeedSet) -> Iterator[tuple[list[int], Embeddings]]:
        """The embeddings of all posts that have finite ones: with the numbers of the messages."""

        def embed(rows: Sequence[int]) -> Embeddings:
            return self._enc.posts([batch.posts[row].text for row in rows])

        for rows, made in by_halves(embed, list(batch.posts)):
            if isinstance(made, Exception):
                self._refuse(batch, rows[0], made, "as it was embedded", seeds)
                continue
            finite = np.isfinite(made.dense).all(axis=1)
            for at in np.flatnonzero(~finite).tolist():
                batch.reject(rows[at], Reason.NOT_FINITE, "its embedding is not finite")
            words = made.dense.any(axis=1) | (np.diff(made.lexical.indptr) > 0)
            for at in np.flatnonzero(finite & ~words).tolist():
                batch.pass_over(rows[at], "no_words")
            kept = np.flatnonzero(finite & words)
            if len(kept):
                whole = len(kept) == len(made)
                yield [rows[at] for at in kept.tolist()], made if whole else made[kept]

    def _match(
        self, batch: Batch, rows: list[int], posts: Embeddings, seeds: SeedSet
    ) -> Iterator[Matched]:
        """The posts among these that match; what cannot be compared becomes a dead letter."""
        most = self._settings.max_matches
        times = np.array([moment(batch.messages[row]) for row in rows], np.int64)

        def match(at: Sequence[int]) -> tuple[list[Matched], Found]:
            part = posts if len(at) == len(posts) else posts[list(at)]
            found = Matcher(seeds, self._enc.threads, most).match(part, times[list(at)])
            made = [
                Matched(rows[at[post]], int(found.counts[post]), *pairs)
                for post, pairs in by_post(found)
            ]
            self._explain(batch, made, seeds)
            return made, found

        for at, made in by_halves(match, range(len(rows))):
            if isinstance(made, Exception):
                self._refuse(batch, rows[at[0]], made, "as it was compared", seeds)
                continue
            batch.outcome.count(made[1], seeds)
            yield from made[0]

    def _refuse(self, batch: Batch, row: int, error: Exception, when: str, seeds: SeedSet) -> None:
        """Make a post that cannot be worked on a dead letter, unless an ordinary one cannot too."""
        if out_of_memory(error):
            batch.reject(row, Reason.OUT_OF_MEMORY, f"out of memory {when}")
            return
        try:
            self.prepare(seeds)
        except Exception:  # noqa: BLE001 - whatever it is, it is not this post's
            raise error from None
        batch.reject(row, Reason.FAILED, f"{type(error).__name__} {when}")

    def _explain(self, batch: Batch, found: Sequence[Matched], seeds: SeedSet) -> None:
        """The words that made each score, for the matches that will be named."""
        if not (self._settings.why and found):
            return
        named = [(at, seed) for at, one in enumerate(found) for seed in one.seeds]
        texts = [batch.posts[one.row].text for one in found]
        parts = self._enc.contributions(texts, seeds.embeddings, named)
        for (at, _), words in zip(named, parts, strict=True):
            found[at].why.append(why_tokens(words))

    def _render(
        self, batch: Batch, found: Sequence[Matched], seeds: SeedSet, now: Callable[[], str]
    ) -> None:
        """The match records, and all records in the order of their messages."""
        processed_at = now() if found else ""
        for one in found:
            matches = self._named(batch.posts[one.row], one, seeds)
            batch.outcome.matched += 1
            batch.outcome.records.append(
                to_match_record(
                    *(one.row, batch.messages[one.row], batch.posts[one.row], matches),
                    *(one.count, seeds.digest, self._enc.digest, processed_at),
                )
            )
        batch.outcome.records.sort(key=lambda record: record.source)

    def _named(self, post: Post, one: Matched, seeds: SeedSet) -> list[Match]:
        """The matches that a record names."""
        why = one.why or [[]] * len(one.seeds)
        return [
            to_match(
                post, seeds.seeds[seed], self._enc.digest, score, seeds.thresholds[seed], words
            )
            for seed, score, words in zip(one.seeds, one.scores, why, strict=True)
        ]


def _read(value: bytes | None, form: str, limits: Limits) -> Read:
    """What a message holds; one that alone cannot be read, against all expectation, is rejected."""
    try:
        return read_post(value, form, limits)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not come again and again
        read_post(ORDINARY)  # raises too where it is not the message's own
        return Rejected(Reason.FAILED, f"{type(error).__name__} as it was read")


def moment(message: Message) -> int:
    """When a post was written by Kafka's time; where that is unknown, before anything expires."""
    written = message.timestamp
    return BEFORE_ALL if written is None or written < 0 else written


def by_post(found: Found) -> Iterator[tuple[int, tuple[list[int], list[np.float32]]]]:
    """Each post that matches, with its seeds and scores by falling score."""
    posts, starts = np.unique(found.posts, return_index=True)
    ends = np.append(starts, len(found.posts))[1:]
    for post, start, end in zip(posts, starts, ends, strict=True):
        yield int(post), (found.seeds[start:end].tolist(), list(found.scores[start:end]))
