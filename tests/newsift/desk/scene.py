"""An event with all posts of its stream, so that a histogram can be checked by counting."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

import numpy as np

from newsift.desk.matches import MatchStore
from newsift.desk.model import ControlView, DeskModel
from newsift.desk.scoring import EventScores, Measure, NearAnswers, make_measure, scored_matches
from newsift.desk.views.scores import FigureData
from newsift.operations.cluster_status import StreamRate
from newsift.operations.model_context import ModelContext
from newsift.statistics.labels import Label
from tests.encoder.small import WORDS
from tests.newsift.desk.matched import moment
from tests.worker.small import Mail
from worker.kafka.reading import Offsets, TopicReader
from worker.match.near import Cuts, Edges, NearMissRows
from worker.match.pipeline import Pipeline
from worker.match.reservoir import NearAnswer, NearMisses
from worker.posts.outcome import Post
from worker.seeds.set import SeedSet
from worker.seeds.state import ModelFacts, parse_control_state

HOUR = 3_600_000
NOW = 1_795_000_000_000
HOURS = 10
EVENT = "flood"
SEEDS = {"river": "storm flood river city the river flood", "rain": "storm storm city flood"}


def view_of(context: ModelContext, records: Mapping[str, dict[str, object]]) -> ControlView:
    state = parse_control_state(
        {key.encode(): json.dumps(row).encode() for key, row in records.items()}
    )
    seeds = context.seed_set(state)
    enc = context.enc
    return ControlView(state.resolve(ModelFacts(enc.digest, enc.dim, enc.mix)), seeds)


def seeds_of(**more: object) -> dict[str, dict[str, object]]:
    return {name: {"text": text, "event": EVENT, **more} for name, text in SEEDS.items()}


def stream(seed: int, count: int = 900) -> list[tuple[Post, int]]:
    dice = random.Random(seed)
    created = []
    for n in range(count):
        text = " ".join(dice.choices(WORDS[:10], k=dice.randint(3, 8)))
        at = NOW - HOURS * HOUR + n * HOURS * HOUR // count
        created.append((Post(str(n), "plain", f"{text} n{n}"), at))
    return created


class FixedModel(DeskModel):
    def __init__(self, context: ModelContext, view: ControlView) -> None:
        self.context, self.current_view = context, view

    def wait(self, seconds: float = 0) -> ModelContext:
        return self.context

    def view(self) -> ControlView:
        return self.current_view


class Topic:
    def offsets_at(self, _topic: str, _since: int) -> Offsets:
        return {0: 0}

    def ends(self, _topic: str) -> Offsets:
        return {0: 0}


@dataclass
class Town:
    """A stream that a worker has matched with the seeds as they stood."""

    context: ModelContext
    posts: list[tuple[Post, int]]
    store: MatchStore

    def run(self, seeds: SeedSet, posts: Sequence[tuple[Post, int]]) -> None:
        pipeline = Pipeline(self.context.enc, "plain")
        for n, (post, at) in enumerate(posts):
            sent = Mail(
                json.dumps({"id": post.id, "text": post.text}).encode(), offset=n, timestamp=at
            )
            outcome = pipeline.run([sent], seeds, lambda at=at: moment(at))  # type: ignore[misc]
            result = [Mail(each.value, offset=n, timestamp=at) for each in outcome.records]
            self.store.take(result)  # type: ignore[arg-type]

    def near(self, measure: Measure, seeds: SeedSet) -> NearAnswer:
        """What a worker tells that has looked at all posts with these seeds."""
        # Fewer than are kept at most.
        edges, _ = Edges.build(seeds, _cuts(self.context), (0.1, 0.15), {})
        near_misses = NearMisses([EVENT])
        near_misses.count_posts(len(self.posts))
        scores = measure.scores([post.text for post, _ in self.posts])
        vectors = self.context.enc.posts([post.text for post, _ in self.posts])
        levels = (vectors.similarity(seeds.embeddings)[:, :, None] < edges.edges[None]).sum(axis=2)
        level = levels.min(axis=1)
        rows = np.flatnonzero((level > 0) & (level < 3))
        none = np.zeros(len(rows), np.int64)
        nears = NearMissRows(rows, none, level[rows] - 1, scores[rows])
        near_misses.add(
            [p for p, _ in self.posts], nears.posts, nears.events, nears.strata, nears.scores
        )
        of_seeds = {s.id: tuple(edges.edges[n].tolist()) for n, s in enumerate(seeds.seeds)}
        return NearAnswer(
            EVENT, seeds.digest, of_seeds, near_misses.strata(EVENT), near_misses.post_count(EVENT)
        )


def _cuts(context: ModelContext) -> Cuts:
    return lambda rows, rate: context.enc.thresholds(rows, rate, context.background)


def town(context: ModelContext, seed: int = 1) -> Town:
    store = MatchStore(context.config, now=lambda: NOW)
    store.begin(cast(TopicReader, Topic()))
    return Town(context, stream(seed), store)


def scene(
    here: Town, now: ControlView, labels: Sequence[Label] = (), answers: Sequence[NearAnswer] = ()
) -> FigureData:
    measure = make_measure(here.context, now, EVENT)
    flow = StreamRate(len(here.posts), NOW - HOURS * HOUR, NOW, 100)
    result = scored_matches(here.store, measure)
    marks = EventScores(here.store, FixedModel(here.context, now)).marks(measure, result, labels)
    return FigureData(
        measure, result, tuple(labels), marks, NearAnswers(tuple(answers), ()), flow, NOW
    )


def without_workers(data: FigureData) -> FigureData:
    return replace(data, near=NearAnswers((), ("worker 127.0.0.1:1: tells of no near misses",)))
