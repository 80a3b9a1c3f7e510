"""The stages of a batch: decode, encode, match; a message that fails becomes a dead letter."""

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import pairwise
from typing import TypeVar

import numpy as np

from encoder.embeddings import Embeddings, check_rows
from encoder.encoder import Encoder
from encoder.model.weights import F32, I64
from worker.crashpoint import reached
from worker.match.links import linked_pairs
from worker.match.matcher import SeedPairs
from worker.match.near import Edges, NearMissRows, draw_control_reads
from worker.match.readers import (
    NO_PAIRS,
    Matched,
    MatchOptions,
    PostMatcher,
    PostReader,
    ReadTexts,
    deduplicate,
    do_nothing,
    select_rows,
)
from worker.match.records import (
    Message,
    Origin,
    Record,
    RecordRules,
    ScoredPair,
    select_why_tokens,
    to_dead_letter,
    to_match,
    to_match_record,
)
from worker.posts.compare import as_text, compared_text
from worker.posts.outcome import Unreadable
from worker.posts.read import (
    DEFAULT_RULES,
    PassedOver,
    Post,
    PostRules,
    Reading,
    Reason,
    Rejected,
    read_post,
    read_posts,
)
from worker.seeds.set import NEVER_EXPIRES, SeedSet

Result = TypeVar("Result")
Work = Callable[[Sequence[int]], Result]


def bisect_failures(
    work: Work[Result], rows: Sequence[int]
) -> Generator[tuple[Sequence[int], Result | Exception], None, bool]:
    """The results for all rows; on failure for halves, down to single rows.

    A single row that fails is paired with its error. An error that no single row causes is raised,
    unless memory was too small for all rows at once.
    """
    if not rows:
        return False
    try:
        result: Result | Exception = work(rows)
    except Exception as error:  # noqa: BLE001 - the caller decides by its type
        result = error
    if not isinstance(result, Exception) or len(rows) == 1:
        yield rows, result
        return isinstance(result, Exception)
    middle = len(rows) // 2
    first = yield from bisect_failures(work, rows[:middle])
    second = yield from bisect_failures(work, rows[middle:])
    if not (first or second or is_out_of_memory(result)):
        raise result
    return first or second


def is_out_of_memory(error: Exception) -> bool:
    """torch's error is recognised by name."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


READ_AT_ONCE = 64  # messages; if one is not plain, each is read alone
MIN_DISTINCT_SHARE = 0.9
RECORD_RULES = RecordRules()
BEFORE_ANY_EXPIRY = np.iinfo(np.int64).min
STAGES = ("decode", "encode", "read", "match")


@dataclass
class Outcome:
    """The records to send, in message order, and counts."""

    read: int = 0
    timestamps: I64 = field(default_factory=lambda: np.zeros(0, np.int64))  # [read], or negative
    records: list[Record] = field(default_factory=list)
    read_by_star: int = 0  # posts
    linking: int = 0  # posts that link to the page of a seed
    matched: int = 0  # posts
    without_seeds: int = 0
    passed_over: Counter[str] = field(default_factory=Counter)
    rejected: Counter[Reason] = field(default_factory=Counter)
    events: Counter[str] = field(default_factory=Counter)  # matches
    vectors: list[Embeddings] = field(default_factory=list)  # a row for each match record
    posts_by_event: Counter[str] = field(default_factory=Counter)
    stories: Counter[str] = field(default_factory=Counter)  # new story groups by event
    nears: list[tuple[list[Post], NearMissRows]] = field(default_factory=list)  # near misses
    # Control posts: all (skimmed), those that are read, and would-be matches among these (lost).
    control: Counter[str] = field(default_factory=Counter)
    best: F32 = field(default_factory=lambda: np.zeros(0, np.float32))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))


@dataclass(frozen=True, slots=True)
class ProbeMessage:
    """A valid message. An error that it raises too is not one message's fault."""

    value: bytes = b'{"id": "1", "text": "first words"}'
    topic: str = ""
    partition: int = 0
    offset: int = 0
    timestamp: int = 0
    key: None = None
    headers: tuple[()] = ()


class BatchState:
    def __init__(self, messages: Sequence[Message]) -> None:
        self.messages = messages
        self.posts: dict[int, Post] = {}  # by the number of the message
        self.linked: dict[int, list[int]] = {}  # by message: the seeds to whose pages it links
        self.outcome = Outcome(len(messages), timestamps_of(messages))

    def reject(self, index: int, reason: Reason, detail: str) -> None:
        self.posts.pop(index, None)
        self.outcome.rejected[reason] += 1
        self.outcome.records.append(to_dead_letter(index, self.messages[index], reason, detail))

    def pass_over(self, index: int, why: str) -> None:
        self.posts.pop(index, None)
        self.outcome.passed_over[why] += 1

    def find_links(self, seeds: SeedSet) -> None:
        if not seeds.links.pages:
            return
        rows = list(self.posts)
        posts, times = [*self.posts.values()], self.times(rows)
        for place, seed in linked_pairs(posts, seeds.links, times).tolist():
            self.linked.setdefault(rows[place], []).append(seed)

    def times(self, rows: Sequence[int]) -> I64:
        """The times of messages, which decide whether a seed has expired."""
        times = self.outcome.timestamps[np.array(rows, np.int64)]
        return np.where(times < 0, BEFORE_ANY_EXPIRY, np.minimum(times, NEVER_EXPIRES - 1))

    def linked_pairs(self, rows: Sequence[int]) -> I64:
        """The pairs among these messages that match by a link: [l, 2]."""
        if not self.linked:
            return NO_PAIRS
        pairs = [(at, seed) for at, row in enumerate(rows) for seed in self.linked.get(row, ())]
        return np.array(pairs, np.int64).reshape(-1, 2)

    def match(self, records: Sequence[Record], matched: Matched, seeds: SeedSet) -> None:
        """Adds the records of matching posts and their counts."""
        outcome, pairs = self.outcome, matched.pairs
        outcome.records += records
        outcome.vectors.append(matched.matching)
        outcome.control.update(matched.control)
        outcome.matched += len(records)
        if pairs.by_link is not None:
            outcome.linking += len(np.unique(pairs.posts[pairs.by_link]))
        for record in records:
            outcome.posts_by_event.update(record.story_key.events if record.story_key else ())
        outcome.best = np.concatenate([outcome.best, pairs.best])
        for seed in np.flatnonzero(pairs.hits).tolist():
            outcome.events[seeds.seeds[seed].event] += int(pairs.hits[seed])

    def note_near(self, rows: Sequence[int], nears: NearMissRows | None) -> None:
        if nears is not None and len(nears.posts):
            near_rows = sorted(set(nears.posts.tolist()))
            posts = [self.posts[rows[row]] for row in near_rows]
            which = np.searchsorted(near_rows, nears.posts)
            self.outcome.nears.append((posts, replace(nears, posts=which)))


class Pipeline:
    """All stages of a batch: a pure function of messages and seeds.

    Pass a timer to measure the stages.
    """

    def __init__(
        self, enc: Encoder, rules: PostRules = DEFAULT_RULES, made: RecordRules = RECORD_RULES,
        timer: Callable[[], float] = lambda: 0.0, at_once: int = 1,
    ) -> None:  # fmt: skip
        """`at_once` batches run at the same time and share the threads of the encoder.

        Each reads on all threads: a long batch is often the only one that has posts to read.
        """
        self._threads = -(-enc.threads // at_once)
        self._enc, self._rules, self._made, self._timer = enc, rules, made, timer
        self._reader = PostReader(enc, enc.threads)
        # A model with one reader reads as quickly as it skims.
        self._embed = enc.skim if enc.has_star else enc.posts

    def run(
        self, messages: Sequence[Message], seeds: SeedSet, now: Callable[[], str],
        edges: Edges | None = None, go_on: Callable[[], None] = do_nothing,
    ) -> Outcome:  # fmt: skip
        """`now` gives the time as RFC 3339; `edges` turn on near misses.

        `go_on` is called whenever some posts have been read; what it raises ends the run if it is
        no Exception.
        """
        batch, start = BatchState(messages), self._timer()
        self._decode(batch)
        reached("decoded")
        start = self._lap(batch, "decode", start)
        if not len(seeds):
            batch.outcome.without_seeds = len(batch.posts)
            batch.posts.clear()
        batch.find_links(seeds)
        parts = list(self._encode(batch, seeds, self._embed))
        reached("encoded")
        start = self._lap(batch, "encode", start)

        def read(texts: Sequence[str]) -> Embeddings:
            began = self._timer()
            vectors = self._reader.read(texts, go_on)
            self._lap(batch, "read", began)
            return vectors

        matcher = self._matcher(seeds, read, edges)
        moment = cache(now)
        for rows, vectors in parts:
            self._match(batch, rows, vectors, matcher, moment)
        batch.outcome.records.sort(key=lambda record: record.source)
        reached("matched")
        self._lap(batch, "match", start)
        batch.outcome.seconds["match"] -= batch.outcome.seconds["read"]
        return batch.outcome

    def posts_in(
        self, messages: Sequence[Message], seeds: SeedSet
    ) -> Iterator[tuple[list[Post], Embeddings]]:
        """Posts, whose text is all that is compared, with vectors that are skimmed where possible.

        Those that link to the page of a seed are left out.
        """
        batch = BatchState(messages)
        self._decode(batch)
        batch.find_links(seeds)
        for row in batch.linked:
            del batch.posts[row]
        for rows, vectors in self._encode(batch, seeds, self._embed):
            yield [as_text(batch.posts[row], self._made.compare) for row in rows], vectors

    def _lap(self, batch: BatchState, stage: str, start: float) -> float:
        end = self._timer()
        batch.outcome.seconds[stage] += end - start
        return end

    def _decode(self, batch: BatchState) -> None:
        for start in range(0, len(batch.messages), READ_AT_ONCE):
            messages = batch.messages[start : start + READ_AT_ONCE]
            for index, result in enumerate(self._read(messages), start):
                if isinstance(result, Post):
                    batch.posts[index] = result
                elif isinstance(result, PassedOver):
                    batch.pass_over(index, result.why)
                else:
                    message = batch.messages[index]
                    if isinstance(message, Unreadable):
                        detail = f"offsets {message.offsets}: {message.detail}"
                        result = Rejected(Reason.BAD_BATCH, detail)
                    batch.reject(index, result.reason, result.detail)

    def _read(self, messages: Sequence[Message]) -> list[Reading]:
        values, rules = [message.value for message in messages], self._rules
        try:
            return read_posts(values, rules.form, rules.limits, rules.langs)
        except Exception:  # noqa: BLE001 - one value raised it
            return [read_safely(value, rules) for value in values]

    def _matcher(self, seeds: SeedSet, read: ReadTexts, edges: Edges | None = None) -> PostMatcher:
        return PostMatcher(read, seeds, MatchOptions(self._threads, self._made.most, edges))

    def _encode(
        self, batch: BatchState, seeds: SeedSet, read: Callable[..., Embeddings]
    ) -> Iterator[tuple[list[int], Embeddings]]:
        """Message numbers, and embeddings of their posts, where these are finite."""

        def embed(rows: Sequence[int]) -> Embeddings:
            """Texts that repeat are embedded once, where that costs less than copying rows."""
            texts = [compared_text(batch.posts[row], self._made.compare) for row in rows]
            if len(set(texts)) > MIN_DISTINCT_SHARE * len(texts):
                return read(texts, threads=self._threads)
            distinct, index = deduplicate(texts)
            return read(distinct, threads=self._threads)[index]

        for rows, result in bisect_failures(embed, list(batch.posts)):
            if isinstance(result, Exception):
                self._reject_failed(batch, rows[0], result, "embedded", seeds)
                continue
            finite, has_words = check_rows(result)
            for at in np.flatnonzero(~finite).tolist():
                batch.reject(rows[at], Reason.NOT_FINITE, "its embedding is not finite")
            # A post without words matches by its links alone.
            compared = has_words | np.isin(rows, [*batch.linked])
            for at in np.flatnonzero(finite & ~compared).tolist():
                batch.pass_over(rows[at], "no_words")
            usable = np.flatnonzero(finite & compared)
            if len(usable):
                yield [rows[at] for at in usable.tolist()], select_rows(result, usable)

    def _match(
        self, batch: BatchState, rows: list[int], posts: Embeddings, matcher: PostMatcher,
        now: Callable[[], str],
    ) -> None:  # fmt: skip
        """A post that fails becomes a dead letter."""
        seeds = matcher.seeds
        times = batch.times(rows)

        def match(at: Sequence[int]) -> tuple[list[Record], Matched]:
            part = slice(at[0], at[-1] + 1)
            own = rows[part]
            texts = [compared_text(batch.posts[row], self._made.compare) for row in own]
            linked = batch.linked_pairs(own)
            draw = partial(draw_control_reads, [batch.posts[row] for row in own], matcher.nonce)
            matched = matcher.match(texts, posts[part], times[part], linked, draw)
            return self._records(batch, own, matched.pairs, seeds, now), matched

        for at, result in bisect_failures(match, range(len(rows))):
            if isinstance(result, Exception):
                self._reject_failed(batch, rows[at[0]], result, "compared", seeds)
            else:
                records, matched = result
                batch.match(records, matched, seeds)
                batch.outcome.read_by_star += len(matched.rows) if matcher.skims else 0
                batch.note_near(rows[at[0] : at[-1] + 1], matched.pairs.nears)

    def _records(
        self, batch: BatchState, rows: Sequence[int], matches: SeedPairs, seeds: SeedSet,
        now: Callable[[], str],
    ) -> list[Record]:  # fmt: skip
        """Match records and dead letters in the order of the posts."""
        posts, starts, which = np.unique(matches.posts, return_index=True, return_inverse=True)
        matching = [rows[post] for post in posts.tolist()]
        pairs = list(zip(which.tolist(), matches.seeds.tolist(), strict=True))
        why = self._explain(batch, matching, pairs, seeds)
        listing = [
            to_match(
                ScoredPair(
                    batch.posts[matching[at]],
                    seeds.seeds[seed],
                    score,
                    seeds.thresholds[seed],
                    by_link,
                ),
                self._enc.digest,
                words,
                self._made,
            )
            for (at, seed), score, by_link, words in zip(
                pairs, matches.scores, is_by_link(matches), why, strict=True
            )
        ]
        spans = [*starts.tolist(), len(listing)]
        origin = Origin(seeds.digest, self._enc.digest, now() if matching else "")
        return [
            to_match_record(
                row, batch.messages[row], batch.posts[row], listing[start:end], count, origin
            )
            for row, (start, end), count in zip(
                matching, pairwise(spans), matches.counts[posts].tolist(), strict=True
            )
        ]

    def _explain(
        self,
        batch: BatchState,
        rows: Sequence[int],
        pairs: Sequence[tuple[int, int]],
        seeds: SeedSet,
    ) -> list[list[tuple[str, float]]]:
        """The words that made the score of each pair; a repeated text is explained once."""
        if not (self._made.why and pairs):
            return [[] for _ in pairs]
        compare = self._made.compare
        texts, index = deduplicate([compared_text(batch.posts[row], compare) for row in rows])
        unique, places = deduplicate([(index[at], seed) for at, seed in pairs])
        seed_numbers, seed_index = np.unique([seed for _, seed in unique], return_inverse=True)
        pairs = [(text, at) for (text, _), at in zip(unique, seed_index.tolist(), strict=True)]
        skim = self._made.skimmed
        parts = self._enc.contributions(texts, seeds.vectors[seed_numbers], pairs, skim)
        words = [select_why_tokens(contributions) for contributions in parts]
        return [words[place] for place in places]

    def _reject_failed(
        self, batch: BatchState, row: int, error: Exception, was: str, seeds: SeedSet
    ) -> None:
        """Raises the error instead if a valid post fails too."""
        if is_out_of_memory(error):
            batch.reject(row, Reason.OUT_OF_MEMORY, f"out of memory as it was {was}")
            return
        try:
            self._run_probe(seeds)
        except Exception:  # noqa: BLE001 - whatever it is, it is not this post's
            raise error from None
        is_infinite = isinstance(error, FloatingPointError)
        reason = Reason.NOT_FINITE if is_infinite else Reason.FAILED
        batch.reject(row, reason, f"{type(error).__name__} as it was {was}")

    def _run_probe(self, seeds: SeedSet) -> None:
        """Takes a valid post through all stages, as if it matched the first seed."""
        batch, post = BatchState([ProbeMessage()]), Post("1", "plain", "first words")
        batch.posts[0] = post
        pairs = (
            self._matcher(seeds, self._reader.read)
            .match([post.text], self._embed([post.text]), np.zeros(1, np.int64))
            .pairs
        )
        if len(seeds):
            first = np.zeros(1, np.int64)
            as_if = SeedPairs(
                first, first, np.ones(1, np.float32), pairs.best, first + 1, pairs.hits
            )
            self._records(batch, [0], as_if, seeds, str)


def is_by_link(pairs: SeedPairs) -> list[bool]:
    """Of each pair, whether the post links to the seed's page."""
    return [False] * len(pairs.posts) if pairs.by_link is None else pairs.by_link.tolist()


def read_safely(value: bytes | None, rules: PostRules) -> Reading:
    """An unexpected error that only this message raises rejects it."""
    try:
        return read_post(value, rules.form, rules.limits, rules.langs)
    except Exception as error:  # noqa: BLE001 - whatever it is, it must not come again and again
        read_post(ProbeMessage().value)  # raises too where it is not the message's own
        return Rejected(Reason.FAILED, f"{type(error).__name__} as it was read")


def timestamps_of(messages: Sequence[Message]) -> I64:
    """Milliseconds by Kafka's clock; negative without one: [n]."""
    stamps = [message.timestamp for message in messages]
    if None in stamps:
        stamps = [-1 if stamp is None else stamp for stamp in stamps]
    try:
        return np.array(stamps, np.int64)
    except OverflowError:  # a client in Python adds up what wraps around in Java
        return np.array([((stamp or 0) + 2**63) % 2**64 - 2**63 for stamp in stamps], np.int64)
