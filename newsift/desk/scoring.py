"""What posts score with an event now: its matches, its labels, near misses and the background."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import inf
from threading import Lock

import numpy as np

from encoder.embeddings import Embeddings
from encoder.errors import InputError, NewsiftError
from encoder.model.weights import F32
from newsift.desk.board import Board, BoardRow, StoryGroup
from newsift.desk.model import ControlView, Model
from newsift.desk.threads import TimedCache
from newsift.operations.cluster_status import StreamRate, stream_rate
from newsift.operations.events import EventState, require_event
from newsift.operations.labels import near_answers
from newsift.operations.messages import capture
from newsift.operations.model_context import ModelContext
from newsift.operations.times import now_ms
from newsift.operations.workers import kafka_cluster_id
from newsift.statistics.estimates import Draws, LabelledScore, draws_of, joint_verdicts
from newsift.statistics.feedback import profile_threshold
from newsift.statistics.labels import Label, unanimous_verdicts
from newsift.statistics.pass_rates import Passed
from newsift.statistics.queues import Candidate, draw_order, queue_of
from worker.config import Config
from worker.errors import BrokerError
from worker.kafka.reading import connected
from worker.match.records import Match, MatchRecord, why_tokens
from worker.match.reservoir import NearAnswer
from worker.posts.outcome import Post, PostId
from worker.posts.times import milliseconds, utc
from worker.seeds.background import sides_of
from worker.seeds.profile import Compared, Profile

NEAR_S, STREAM_S = 10.0, 60.0  # that an answer is good for
BLOCK_SCORES = 2**22
MOST_MEASURES = 64
Why = list[tuple[str, float]]
MOST_STORIES = 5_000  # the newest
MOST_MARKS = 500  # labelled posts, those that were judged last
CLOSE = 1e-6  # thresholds that differ by less are the same


@dataclass(frozen=True, slots=True)
class Near:
    """What the workers tell of an event, and of which workers nothing is known."""

    answers: tuple[NearAnswer, ...]
    messages: tuple[str, ...]


class Outside:
    """Both, asked now and then however many pages are open."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._near: TimedCache[str, Near] = TimedCache(self._ask_near, NEAR_S)
        self._stream: TimedCache[str, StreamRate] = TimedCache(self._ask_stream, STREAM_S)

    def near(self, event: str) -> Near:
        """The near misses of an event."""
        try:
            return self._near.of(event)
        except BrokerError as error:  # another page asks just now, and waits
            return Near((), (str(error),))

    def stream(self) -> StreamRate:
        """How many posts come."""
        try:
            return self._stream.of(self._config.topics.posts)
        except BrokerError as error:
            return StreamRate(why=str(error))

    def _ask_near(self, event: str) -> Near:
        with capture() as messages:
            answers = near_answers(self._config, event, partial(kafka_cluster_id, self._config))
        return Near(tuple(answers), tuple(messages))

    def _ask_stream(self, topic: str) -> StreamRate:
        try:
            with connected(self._config) as cluster:
                return stream_rate(cluster, topic, now_ms())
        except NewsiftError as error:
            return StreamRate(why=str(error))


@dataclass(frozen=True, eq=False)
class Measure:
    """The seeds and the profile that posts are compared with, each with its threshold."""

    teacher: ModelContext
    event: EventState
    compared: tuple[Compared, ...]
    rows: Embeddings  # [k]
    cuts: F32  # [k]

    @cached_property
    def names(self) -> Mapping[tuple[str, str], float]:
        """The threshold of each, by its id and version as matches name them."""
        named = [(each.id, each.version) for each in self.compared]
        return dict(zip(named, self.cuts.tolist(), strict=True))

    @cached_property
    def is_automatic(self) -> bool:
        """Whether nobody has set a threshold."""
        own = [each.threshold for each in self.compared]
        return self.teacher.config.matching.threshold is None and set(own) <= {None}

    @cached_property
    def automatic(self) -> tuple[float, ...]:
        """The thresholds that are found on the background, rising; none where it is too small."""
        rate, everyday = self.teacher.config.matching.background_rate, self.teacher.background
        profiles = [each for each in self.compared if isinstance(each, Profile)]
        at = [n for n, each in enumerate(self.compared) if not isinstance(each, Profile)]
        rows = self.rows[np.array(at, np.int64)]
        try:
            thresholds = self.teacher.enc.thresholds(rows, rate, everyday).tolist() if at else []
            thresholds += [profile_threshold(each.vector, everyday, rate) for each in profiles]
        except InputError:
            return ()
        return tuple(sorted(thresholds))

    @cached_property
    def background(self) -> F32:
        """What everyday posts score: those that no profile was told apart from."""
        everyday = self.teacher.background
        if any(isinstance(each, Profile) for each in self.compared):
            everyday = sides_of(everyday)[1]
        return self._best(everyday)

    def scores(self, texts: Sequence[str]) -> F32:
        """What posts with these texts score."""
        return self._best(self.teacher.enc.posts(texts))

    def why(self, texts: Sequence[str]) -> list[Why]:
        """The words that make most of each text's score."""
        enc = self.teacher.enc
        best = enc.posts(texts).similarity(self.rows).argmax(axis=1).tolist()
        return [
            why_tokens(each) for each in enc.contributions(texts, self.rows, [*enumerate(best)])
        ]

    def _best(self, posts: Embeddings) -> F32:
        """The best score of each post, in bounded memory."""
        step = max(BLOCK_SCORES // max(len(self.rows), 1), 1)
        parts = (posts[at : at + step] for at in range(0, len(posts), step))
        best = [part.similarity(self.rows).max(axis=1, initial=np.float32(-2)) for part in parts]
        return np.concatenate([np.zeros(0, np.float32), *best])


def measure_of(teacher: ModelContext, view: ControlView, name: str) -> Measure:
    """The measure of an event, which has to exist."""
    event, seeds = require_event(view.events, name), view.seeds
    at = [n for n, each in enumerate(seeds.seeds) if each.event == name]
    compared = tuple(seeds.seeds[n] for n in at)
    places = np.array(at, np.int64)
    return Measure(teacher, event, compared, seeds.embeddings[places], seeds.thresholds[places])


@dataclass(frozen=True, slots=True)
class Own:
    """The first of the matches that say the same, by what the event is compared with now."""

    candidate: Candidate
    passed: Passed
    processed_at: str


@dataclass(frozen=True, slots=True, eq=False)
class Matched:
    """The matches of an event that are kept, and since when they are all that there were."""

    own: tuple[Own, ...]
    since: int


def matched(board: Board, measure: Measure) -> Matched:
    """The matches that are on the board now."""
    name, names = measure.event.name, measure.names
    everything = board.stories(name)
    stories = everything[-MOST_STORIES:]
    own: list[Own] = []
    since = board.since
    if len(stories) < len(everything) or _has_let_go(board, name, everything):
        since = max(since, min((story.first.at for story in stories), default=0))
    for story in stories:
        for row in list(story.rows.values()):
            record = row.record
            best = max((m for m in record.matches if m.event == name), key=lambda m: m.score)
            cut = names.get((best.seed_id, best.seed_version))
            if cut is not None:
                own.append(_own(row, record, best, cut, story.count))
                break
            since = max(since, row.at + 1)  # what it was compared with says nothing of now
    return Matched(tuple(own), since)


def _own(row: BoardRow, record: MatchRecord, best: Match, cut: float, posts: float) -> Own:
    hid = best.threshold if best.threshold > cut + CLOSE else -inf
    named = Post(record.post.id, record.post.platform, "")  # its text is not needed, and much
    candidate = Candidate(named, best.score, row.group)
    return Own(candidate, Passed(best.score, row.at, posts, hid), record.processed_at)


def _has_let_go(board: Board, name: str, stories: Sequence[StoryGroup]) -> bool:
    """Whether older matches than those that are kept were counted."""
    return sum(board.tally(name).posts) > sum(story.count for story in stories)


def drawn(matches: Matched, labels: Sequence[Label]) -> Draws:
    """The labels that were drawn at random, of the matches of the newest draw."""
    certifying = [label for label in labels if label.drawn == "certify"]
    post_ids = {own.candidate.post_id for own in matches.own}
    name = queue_of(label for label in certifying if label.post_id in post_ids)
    until = milliseconds(utc(name.until)) if name else -1
    there = [o.candidate for o in matches.own if milliseconds(utc(o.processed_at)) <= until]
    order, verdict_of = draw_order(there), unanimous_verdicts(certifying)
    return draws_of(
        [each.score for each in order], [verdict_of.get(each.post_id) for each in order]
    )


class Scores:
    """Measures of events, their matches and the scores of labelled posts, kept while they hold.

    Called from several threads: two may compute the same result at once, neither gets half of one.
    """

    def __init__(self, board: Board, model: Model) -> None:
        self._board, self._model, self._lock = board, model, Lock()
        self._view: ControlView | None = None
        self._measures: dict[str, Measure] = {}  # of this view
        self._matches = lru_cache(8)(lambda measure, _number: matched(board, measure))
        self._scores = lru_cache(16)(lambda measure, texts: measure.scores(texts).tolist())

    def measure(self, name: str) -> Measure:
        """The measure of an event now; refused while the model is not loaded."""
        teacher, view = self._model.wait(0), self._model.view()
        with self._lock:
            if self._view is not view:
                self._view, self._measures = view, {}
            measure = self._measures.get(name)
        if measure is None:
            measure = measure_of(teacher, view, name)
            with self._lock:
                if self._view is view:
                    if len(self._measures) >= MOST_MEASURES:
                        self._measures.clear()
                    measure = self._measures.setdefault(name, measure)
        return measure

    def matches(self, measure: Measure) -> Matched:
        """The matches that are on the board now."""
        return self._matches(measure, self._board.tally(measure.event.name).number)

    def marks(
        self, measure: Measure, matches: Matched, labels: Sequence[Label]
    ) -> tuple[LabelledScore, ...]:
        """The posts that were labelled last, at their scores of now."""
        newest = sorted(labels, key=lambda label: milliseconds(utc(label.at)), reverse=True)
        posts: dict[PostId, Post] = {}
        for label in newest:
            if len(posts) < MOST_MARKS:
                posts.setdefault(label.post_id, label.post)
        verdict_of = joint_verdicts(labels)
        scores = {own.candidate.post_id: own.candidate.score for own in matches.own}
        rest = {name: post.text for name, post in posts.items() if name not in scores}
        scores |= dict(zip(rest, self._scores(measure, tuple(rest.values())), strict=True))
        return tuple(LabelledScore(scores[name], verdict_of[name]) for name in posts)
