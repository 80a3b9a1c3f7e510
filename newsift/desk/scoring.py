"""Present scores with an event: of its matches, labels, near misses and the background."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from math import inf

import numpy as np

from encoder.embeddings import Embeddings
from encoder.errors import NewsiftError
from encoder.model.weights import F32
from newsift.desk.matches import MatchMirror
from newsift.desk.model import ControlView, DeskModel
from newsift.desk.period import FilePeriod, Period, StreamPeriod
from newsift.desk.threads import TimedCache
from newsift.operations.cluster_status import StreamRate, count_processed, read_stream_rate
from newsift.operations.deletions import has_content
from newsift.operations.events import EventState, require_event
from newsift.operations.labels import request_near_answers
from newsift.operations.matches import MatchRow
from newsift.operations.messages import capture
from newsift.operations.model_context import ModelContext
from newsift.operations.times import now_ms
from newsift.operations.workers import kafka_cluster_id
from newsift.statistics.estimates import DrawnLabels, LabelledScore, weigh_draws
from newsift.statistics.labels import Label, joint_verdicts, unanimous_verdicts
from newsift.statistics.pass_rates import ScoredMatch
from newsift.statistics.queues import current_queue, draw_order
from worker.config import Config
from worker.errors import BrokerError
from worker.kafka.reading import connected
from worker.match.near import NearAnswer
from worker.match.records import select_why_tokens
from worker.posts.compare import compared_text
from worker.posts.outcome import Post, PostId
from worker.posts.times import HOUR_MS, milliseconds, utc
from worker.seeds.automatic import split_background
from worker.seeds.profile import Profile, SeedOrProfile

NEAR_MISSES_TTL_S, STREAM_RATE_TTL_S = 10.0, 60.0
MAX_BLOCK_SCORES = 2**22
MAX_MEASURES = 64
MAX_STORIES = 5_000
MAX_LABELLED_POSTS = 500
THRESHOLD_TOLERANCE = 1e-6
Why = list[tuple[str, float]]


@dataclass(frozen=True, slots=True)
class NearAnswers:
    answers: tuple[NearAnswer, ...]
    messages: tuple[str, ...]  # of workers that do not answer


class StreamMonitor:
    """Cached, however many pages are open."""

    def __init__(self, config: Config, period: Period | None = None) -> None:
        self._config, self._period = config, period or StreamPeriod()
        self._near_misses = TimedCache(self._request_near_misses, NEAR_MISSES_TTL_S)
        self._stream_rates = TimedCache(self._read_stream_rate, STREAM_RATE_TTL_S)
        self._processed = TimedCache(self._count_processed, STREAM_RATE_TTL_S)

    def near_misses(self, event: str) -> NearAnswers:
        try:
            return self._near_misses.get(event)
        except BrokerError as error:  # another page waits for the same answer
            return NearAnswers((), (str(error),))

    def stream_rate(self) -> StreamRate:
        if isinstance(self._period, FilePeriod):
            latest = self._period.latest
            return StreamRate(latest.posts, latest.first, latest.last)
        try:
            return self._stream_rates.get(self._config.topics.posts)
        except BrokerError as error:
            return StreamRate(why=str(error))

    def processed(self) -> int:
        """Processed posts of the last hour, or of the file; 0 where the broker does not answer."""
        if isinstance(self._period, FilePeriod):
            return self._period.latest.posts
        with suppress(NewsiftError):
            return self._processed.get(HOUR_MS)
        return 0

    def _request_near_misses(self, event: str) -> NearAnswers:
        with capture() as messages:
            answers = request_near_answers(
                self._config, event, partial(kafka_cluster_id, self._config)
            )
        return NearAnswers(tuple(answers), tuple(messages))

    def _read_stream_rate(self, topic: str) -> StreamRate:
        try:
            with connected(self._config) as cluster:
                return read_stream_rate(cluster, topic, now_ms())
        except NewsiftError as error:
            return StreamRate(why=str(error))

    def _count_processed(self, span_ms: int) -> int:
        with connected(self._config) as cluster:
            return count_processed(cluster, self._config, now_ms() - span_ms)


@dataclass(frozen=True, eq=False)
class Measure:
    """The seeds and the profile that an event's posts are compared with."""

    context: ModelContext
    event: EventState
    seeds: tuple[SeedOrProfile, ...]
    rows: Embeddings  # [k]
    thresholds: F32  # [k]

    @cached_property
    def threshold_of(self) -> Mapping[tuple[str, str], float]:
        """Thresholds by id and version, as match records name them."""
        names = [(seed.id, seed.version) for seed in self.seeds]
        return dict(zip(names, self.thresholds.tolist(), strict=True))

    @cached_property
    def is_automatic(self) -> bool:
        thresholds = [seed.threshold for seed in self.seeds]
        return self.context.config.matching.threshold is None and set(thresholds) <= {None}

    @cached_property
    def automatic(self) -> tuple[float, ...]:
        """Rising; none where the background is too small."""
        thresholds = self.context.automatic.of_seeds(self.seeds, self.rows)[:, 0]
        finite = thresholds[np.isfinite(thresholds)].tolist()
        return tuple(sorted(threshold + self.context.shift for threshold in finite))

    @cached_property
    def background(self) -> F32:
        """Background scores, without posts that a profile was trained on."""
        background = self.context.automatic.judging
        if any(isinstance(seed, Profile) for seed in self.seeds):
            background = split_background(background)[1]
        return self._best(background)

    def scores(self, texts: Sequence[str]) -> F32:
        return self._best(self.context.embed(texts))

    def why(self, texts: Sequence[str]) -> list[Why]:
        enc, skim = self.context.enc, self.context.automatic.skims_alone
        best = self.context.embed(texts).similarity(self.rows).argmax(axis=1).tolist()
        parts = enc.contributions(texts, self.rows, [*enumerate(best)], skim)
        return [select_why_tokens(each) for each in parts]

    def _best(self, posts: Embeddings) -> F32:
        """The best score of each post, computed in bounded memory."""
        step = max(MAX_BLOCK_SCORES // max(len(self.rows), 1), 1)
        parts = (posts[start : start + step] for start in range(0, len(posts), step))
        best = [part.similarity(self.rows).max(axis=1, initial=np.float32(-2)) for part in parts]
        return np.concatenate([np.zeros(0, np.float32), *best])


def make_measure(context: ModelContext, view: ControlView, name: str) -> Measure:
    event, seed_set = require_event(view.events, name), view.seeds
    positions = [n for n, seed in enumerate(seed_set.seeds) if seed.event == name]
    seeds = tuple(seed_set.seeds[n] for n in positions)
    rows = np.array(positions, np.int64)
    return Measure(context, event, seeds, seed_set.vectors[rows], seed_set.thresholds[rows])


@dataclass(frozen=True, slots=True)
class ScoredStory:
    """The first post of a story that was compared with the present seeds or profile."""

    row: MatchRow
    match: ScoredMatch


@dataclass(frozen=True, slots=True, eq=False)
class ScoredMatches:
    """Complete since `since`, in milliseconds."""

    stories: tuple[ScoredStory, ...]
    since: int


def scored_matches(matches: MatchMirror, measure: Measure) -> ScoredMatches:
    event = measure.event.name
    stories = matches.stories(event)
    newest = stories[-MAX_STORIES:]
    result: list[ScoredStory] = []
    since = matches.since
    counted = sum(len(story.rows) for story in stories)
    if len(newest) < len(stories) or matches.counts(event).all_posts > counted:
        # A file need not be in the order of its times: of no time are all matches known.
        oldest = min((story.first.at for story in newest), default=0)
        since = max(since, matches.period.now() if matches.period.is_file else oldest)
    for story in newest:
        for row in story.rows:
            if row.has_link:
                continue
            threshold = measure.threshold_of.get(row.seed)
            if threshold is None:
                since = max(since, row.at + 1)  # it was compared with something else
                continue
            is_hidden = row.threshold > threshold + THRESHOLD_TOLERANCE
            hidden_below = row.threshold if is_hidden else -inf
            match = ScoredMatch(row.score, row.at, len(story.rows), hidden_below)
            result.append(ScoredStory(row, match))
            break
    return ScoredMatches(tuple(result), since)


def drawn_labels(matches: ScoredMatches, labels: Sequence[Label]) -> DrawnLabels:
    """Labels drawn at random among the matches of the newest draw."""
    certifying = [label for label in labels if label.drawn == "certify"]
    name = current_queue(certifying, {story.row.post_id for story in matches.stories})
    until = milliseconds(utc(name.until)) if name else -1
    rows = [story.row for story in matches.stories if story.row.came <= until]
    order, verdict_of = draw_order(rows), unanimous_verdicts(certifying)
    return weigh_draws(
        [row.score for row in order],
        [verdict_of.get(row.post_id) for row in order],
    )


class EventScores:
    """Measures of events, their matches and the scores of labelled posts, cached.

    From several threads: two may compute the same result at once.
    """

    def __init__(self, mirror: MatchMirror, model: DeskModel) -> None:
        self._mirror, self._model = mirror, model
        self._view: ControlView | None = None
        self._measures = lru_cache(MAX_MEASURES)(
            lambda view, event: make_measure(model.wait(0), view, event)
        )
        self._matches = lru_cache(8)(lambda measure, _version: scored_matches(mirror, measure))
        self._scores = lru_cache(16)(lambda measure, texts: measure.scores(texts).tolist())

    def measure(self, event: str) -> Measure:
        """Raises while the model is not loaded, and for an unknown event."""
        view = self._model.view()
        if self._view is not view:
            self._view = view
            self._measures.cache_clear()
        return self._measures(view, event)

    def matches(self, measure: Measure) -> ScoredMatches:
        return self._matches(measure, self._mirror.version(measure.event.name))

    def labelled_scores(
        self, measure: Measure, matches: ScoredMatches, labels: Sequence[Label]
    ) -> tuple[LabelledScore, ...]:
        """The posts that were labelled last; a deleted one only where its match has its score."""
        scores = {story.row.post_id: story.row.score for story in matches.stories}
        newest = sorted(labels, key=lambda label: milliseconds(utc(label.at)), reverse=True)
        posts: dict[PostId, Post] = {}
        for label in newest:
            is_scored = label.post_id in scores or has_content(label.post)
            if is_scored and len(posts) < MAX_LABELLED_POSTS:
                posts.setdefault(label.post_id, label.post)
        verdict_of = joint_verdicts(labels)
        rest = {
            name: compared_text(post, measure.context.compare)
            for name, post in posts.items()
            if name not in scores
        }
        scores |= dict(zip(rest, self._scores(measure, tuple(rest.values())), strict=True))
        return tuple(LabelledScore(scores[name], verdict_of[name]) for name in posts)
