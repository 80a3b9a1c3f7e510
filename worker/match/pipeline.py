"""One batch: decode → encode → match → records to send, for the worker and the offline filter."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import pairwise
from typing import TypeVar

import numpy as np

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.model.weights import F32, I64
from worker import crashpoint
from worker.config import DEFAULT_LIMITS, Limits
from worker.match.halves import by_halves, out_of_memory
from worker.match.matcher import Matcher, Pairs
from worker.match.near import Edges, Nears
from worker.match.records import (
    Message,
    Record,
    to_dead_letter,
    to_match,
    to_match_record,
    why_tokens,
)
from worker.posts.languages import ALL, Languages
from worker.posts.read import PassedOver, Post, Reading, Reason, Rejected, read_post
from worker.posts.unreadable import Unreadable
from worker.seeds.set import SeedSet

T = TypeVar("T", bound=Hashable)
SAMPLE = 4  # posts of a batch, at most, whose scores are looked at as a whole
BEFORE_ALL = np.iinfo(np.int64).min
STAGES = {"decode": "decoded", "encode": "encoded", "match": "matched"}  # and their crash points


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
    vectors: list[Embeddings] = field(default_factory=list)  # a row for each match record
    told: Counter[str] = field(default_factory=Counter)  # posts by the events that they match
    stories: Counter[tuple[str, int]] = field(default_factory=Counter)  # by event and minute
    hits: I64 = field(default_factory=lambda: np.zeros(0, np.int64))  # posts that match each seed
    sample: Embeddings | None = None  # of a few of the posts
    nears: list[tuple[list[Post], Nears]] = field(default_factory=list)  # near misses
    best: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))


@dataclass(frozen=True, slots=True)
class Ordinary:
    """A message as ordinary as can be: what fails on it too is no single message's fault."""

    value: bytes = b'{"id": "1", "text": "first words"}'
    topic: str = ""
    partition: int = 0
    offset: int = 0
    timestamp: int = 0
    key: None = None
    headers: tuple[()] = ()


class Passage:
    """The messages of one batch on their way through the stages, and what came of them so far."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.posts: dict[int, Post] = {}  # by the number of the message
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

    def match(
        self, records: Sequence[Record], found: Pairs, posts: Embeddings, seeds: SeedSet
    ) -> None:
        """Take over the records of posts that match, the best scores, and every event's matches."""
        outcome = self.outcome
        outcome.records += records
        outcome.vectors.append(part_of(posts, np.unique(found.posts)))
        outcome.matched += len(records)
        for record in records:
            outcome.told.update(record.telling.events if record.telling else ())
        outcome.best = np.concatenate([outcome.best, found.best])
        outcome.hits = found.hits if outcome.sample is None else outcome.hits + found.hits
        if outcome.sample is None:
            outcome.sample = posts[:: -(-len(posts) // SAMPLE)]
        for seed in np.flatnonzero(found.hits).tolist():
            outcome.events[seeds.seeds[seed].event] += int(found.hits[seed])

    def note_near(self, rows: Sequence[int], nears: Nears | None) -> None:
        """Take over the near misses among the posts of these messages."""
        if nears is not None and len(nears.posts):
            of = sorted(set(nears.posts.tolist()))
            posts = [self.posts[rows[row]] for row in of]
            which = np.searchsorted(of, nears.posts)
            self.outcome.nears.append((posts, replace(nears, posts=which)))


class Pipeline:
    """What is done with a batch, whoever brings it: a pure function of messages and seeds.

    Whoever wants to know how long each stage takes brings a timer.
    """

    def __init__(
        self, enc: Encoder, form: str = "auto", limits: Limits = DEFAULT_LIMITS,
        max_matches: int = 10, why: bool = True, timer: Callable[[], float] = lambda: 0.0,
        langs: Languages = ALL,
    ) -> None:  # fmt: skip
        self._enc, self._form, self._limits, self._langs = enc, form, limits, langs
        self._max_matches, self._why, self._timer = max_matches, why, timer

    def run(
        self, messages: Sequence[Message], seeds: SeedSet, now: Callable[[], str],
        edges: Edges | None = None,
    ) -> Outcome:  # fmt: skip
        """Work on all messages; `now` says when, as RFC 3339. With edges, note near misses too."""
        batch, started = Passage(messages), self._timer()
        self._decode(batch)
        started = self._lap(batch, "decode", started)
        if not len(seeds):
            batch.outcome.without_seeds = len(batch.posts)
            batch.posts.clear()
        embedded = list(self._encode(batch, seeds))
        started = self._lap(batch, "encode", started)
        moment = cache(now)
        for rows, vectors in embedded:
            self._match(batch, rows, vectors, seeds, moment, edges)
        batch.outcome.records.sort(key=lambda record: record.source)
        self._lap(batch, "match", started)
        return batch.outcome

    def posts_in(
        self, messages: Sequence[Message], seeds: SeedSet
    ) -> Iterator[tuple[list[Post], Embeddings]]:
        """The posts among some messages, with their vectors; what is none is left out."""
        batch = Passage(messages)
        self._decode(batch)
        for rows, vectors in self._encode(batch, seeds):
            yield [batch.posts[row] for row in rows], vectors

    def _lap(self, batch: Passage, stage: str, started: float) -> float:
        ended = self._timer()
        batch.outcome.seconds[stage] = ended - started
        crashpoint.reached(STAGES[stage])
        return ended

    def _decode(self, batch: Passage) -> None:
        for index, message in enumerate(batch.messages):
            if isinstance(message, Unreadable):
                said = f"offsets {message.offsets}: {message.detail}"
                batch.reject(index, message.why, said)
                continue
            found = read_safely(message.value, self._form, self._limits, self._langs)
            if isinstance(found, Post):
                batch.posts[index] = found
            elif isinstance(found, PassedOver):
                batch.pass_over(index, found.why)
            else:
                batch.reject(index, found.reason, found.detail)

    def _encode(self, batch: Passage, seeds: SeedSet) -> Iterator[tuple[list[int], Embeddings]]:
        """The embeddings of all posts that have finite ones: with the numbers of the messages."""

        def embed(rows: Sequence[int]) -> Embeddings:
            """A text that repeats is embedded once."""
            texts, index = repeats(batch.posts[row].text for row in rows)
            vectors = self._enc.posts(texts)
            return vectors if len(texts) == len(rows) else vectors[index]

        for rows, made in by_halves(embed, list(batch.posts)):
            if isinstance(made, Exception):
                self._refuse(batch, rows[0], made, "embedded", seeds)
                continue
            finite = np.isfinite(made.dense).all(axis=1)
            for at in np.flatnonzero(~finite).tolist():
                batch.reject(rows[at], Reason.NOT_FINITE, "its embedding is not finite")
            words = made.dense.any(axis=1) | (np.diff(made.lexical.indptr) > 0)
            for at in np.flatnonzero(finite & ~words).tolist():
                batch.pass_over(rows[at], "no_words")
            kept = np.flatnonzero(finite & words)
            if len(kept):
                yield [rows[at] for at in kept.tolist()], part_of(made, kept)

    def _match(
        self, batch: Passage, rows: list[int], posts: Embeddings, seeds: SeedSet,
        now: Callable[[], str], edges: Edges | None,
    ) -> None:  # fmt: skip
        """Add the records of the posts that match; one that this fails on is a dead letter."""
        times = np.array([moment_of(batch.messages[row]) for row in rows], np.int64)

        def match(at: Sequence[int]) -> tuple[list[Record], Pairs]:
            matcher = Matcher(seeds, self._enc.threads, self._max_matches, edges)
            found = matcher.match(part_of(posts, np.array(at)), times[list(at)])
            return self._records(batch, [rows[i] for i in at], found, seeds, now), found

        for at, made in by_halves(match, range(len(rows))):
            if isinstance(made, Exception):
                self._refuse(batch, rows[at[0]], made, "compared", seeds)
            else:
                batch.match(*made, part_of(posts, np.array(at)), seeds)
                batch.note_near([rows[i] for i in at], made[1].nears)

    def _records(
        self, batch: Passage, rows: Sequence[int], found: Pairs, seeds: SeedSet,
        now: Callable[[], str],
    ) -> list[Record]:  # fmt: skip
        """The match records of these posts, in their order."""
        posts, starts, which = np.unique(found.posts, return_index=True, return_inverse=True)
        matching = [rows[post] for post in posts.tolist()]
        pairs = list(zip(which.tolist(), found.seeds.tolist(), strict=True))
        why = self._words(batch, matching, pairs, seeds)
        named = [
            to_match(
                *(batch.posts[matching[at]], seeds.seeds[seed], self._enc.digest),
                *(score, seeds.thresholds[seed], words),
            )
            for (at, seed), score, words in zip(pairs, found.scores, why, strict=True)
        ]
        spans = [*starts.tolist(), len(named)]
        return [
            to_match_record(
                *(row, batch.messages[row], batch.posts[row], named[start:end], count),
                *(seeds.digest, self._enc.digest, now()),
            )
            for row, (start, end), count in zip(
                matching, pairwise(spans), found.counts[posts].tolist(), strict=True
            )
        ]

    def _words(
        self, batch: Passage, rows: Sequence[int], pairs: Sequence[tuple[int, int]], seeds: SeedSet
    ) -> list[list[tuple[str, float]]]:
        """The words that made the score of each pair; a text that repeats is explained once."""
        if not (self._why and pairs):
            return [[] for _ in pairs]
        texts, index = repeats(batch.posts[row].text for row in rows)
        unique, places = repeats((index[at], seed) for at, seed in pairs)
        words = [
            why_tokens(parts) for parts in self._enc.contributions(texts, seeds.embeddings, unique)
        ]
        return [words[place] for place in places]

    def _refuse(self, batch: Passage, row: int, error: Exception, was: str, seeds: SeedSet) -> None:
        """Make a post that cannot be worked on a dead letter, unless an ordinary one cannot too."""
        if out_of_memory(error):
            batch.reject(row, Reason.OUT_OF_MEMORY, f"out of memory as it was {was}")
            return
        try:
            self._try_an_ordinary_post(seeds)
        except Exception:  # noqa: BLE001 - whatever it is, it is not this post's
            raise error from None
        batch.reject(row, Reason.FAILED, f"{type(error).__name__} as it was {was}")

    def _try_an_ordinary_post(self, seeds: SeedSet) -> None:
        """Take one through all stages, as if it matched the first seed."""
        batch, post = Passage([Ordinary()]), Post("1", "plain", "first words")
        batch.posts[0] = post
        posts = self._enc.posts([post.text])
        found = Matcher(seeds, self._enc.threads).match(posts, np.zeros(1, np.int64))
        if len(seeds):
            first = np.zeros(1, np.int64)
            as_if = Pairs(first, first, np.ones(1, np.float32), found.best, first + 1, found.hits)
            self._records(batch, [0], as_if, seeds, str)


def repeats(items: Iterable[T]) -> tuple[list[T], list[int]]:
    """The different items in the order of their first occurrence, and the place of each item."""
    places: dict[T, int] = {}
    index = [places.setdefault(item, len(places)) for item in items]
    return list(places), index


def read_safely(value: bytes | None, form: str, limits: Limits, langs: Languages = ALL) -> Reading:
    """What a message holds; one that alone cannot be read, against all expectation, is rejected."""
    try:
        return read_post(value, form, limits, langs)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not come again and again
        read_post(Ordinary().value)  # raises too where it is not the message's own
        return Rejected(Reason.FAILED, f"{type(error).__name__} as it was read")


def part_of(vectors: Embeddings, rows: I64) -> Embeddings:
    """Some of these rows, in rising order; all of them are not copied."""
    return vectors if len(rows) == len(vectors) else vectors[rows]


def moment_of(message: Message) -> int:
    """When a post was written by Kafka's time; where that is unknown, before anything expires."""
    written = message.timestamp
    return BEFORE_ALL if written is None or written < 0 else written
