"""An event with all posts of its stream, so that a histogram can be checked by counting."""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest
from msgspec import UNSET

from encoder.model.weights import F32
from newsift.desk.matches import MatchMirror
from newsift.desk.model import ControlView, DeskModel
from newsift.desk.period import FilePeriod, StreamPeriod
from newsift.desk.post_fields import MAX_AUTHOR_CHARS
from newsift.desk.scoring import (
    EventScores,
    Measure,
    NearAnswers,
    StreamMonitor,
    make_measure,
    scored_matches,
)
from newsift.desk.views.events import MAX_LIST_TEXT_CHARS, promise_row
from newsift.desk.views.scores import MAX_ROWS, FigureData, figure_fields, near_rows
from newsift.operations.cluster_status import StreamRate, count_processed, read_stream_rate
from newsift.operations.model_context import ModelContext
from newsift.statistics.labels import Label, QueueName, Verdict
from newsift.statistics.queues import is_certify_post
from tests.encoder.small_model import WORDS
from tests.newsift.desk.match_records import HOUR, moment, topic
from tests.worker.command_topics import POSTS, Kafka
from tests.worker.event_profiles import profile_of
from tests.worker.small_encoder import Mail
from worker.config import Config, DeskConfig, KafkaConfig
from worker.config.load import load_config
from worker.kafka.reading import connected
from worker.match.near import Edges, NearAnswer, NearMiss, NearMisses, NearMissRows, Stratum
from worker.match.pipeline import Pipeline
from worker.posts.outcome import Post
from worker.posts.read import PostRules
from worker.posts.times import DAY_MS
from worker.seeds.automatic import split_background
from worker.seeds.set import SeedSet
from worker.seeds.state import ModelFacts, parse_control_state

NOW = 1_795_000_000_000
HOURS = 10
EVENT = "flood"
SEEDS = {"river": "storm flood river city the river flood", "rain": "storm storm city flood"}
SEED_ROWS = [("", text) for text in SEEDS.values()]


def view_of(context: ModelContext, records: Mapping[str, dict[str, object]]) -> ControlView:
    state = parse_control_state(
        {key.encode(): json.dumps(row).encode() for key, row in records.items()}
    )
    seeds = context.seed_set(state)
    enc = context.enc
    return ControlView(state.resolve(ModelFacts(enc.digest, enc.dim, enc.mix)), seeds)


def seeds_of(**more: object) -> dict[str, dict[str, object]]:
    return {name: {"text": text, "event": EVENT, **more} for name, text in SEEDS.items()}


def stream(count: int = 900) -> list[tuple[Post, int]]:
    dice = random.Random(1)
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
        assert self.context is not None
        return self.context

    def view(self) -> ControlView:
        return self.current_view


@dataclass
class Town:
    """A stream that a worker has matched with the seeds as they stood."""

    context: ModelContext
    posts: list[tuple[Post, int]]
    store: MatchMirror

    def run(self, seeds: SeedSet, posts: Sequence[tuple[Post, int]]) -> None:
        pipeline = Pipeline(self.context.enc, PostRules("plain"))
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
        enc, background = self.context.enc, self.context.automatic.judging
        edges, _ = Edges.build(
            seeds, lambda rows, rate: enc.thresholds(rows, rate, background), (0.1, 0.15), {}
        )
        near_misses = NearMisses([EVENT])
        near_misses.count_posts(len(self.posts))
        scores = measure.scores([post.text for post, _ in self.posts])
        vectors = self.context.enc.posts([post.text for post, _ in self.posts])
        levels = (vectors.similarity(seeds.embeddings)[:, :, None] < edges.edges[None]).sum(axis=2)
        level = levels.min(axis=1)
        rows = np.flatnonzero((level > 0) & (level < 3))
        none = np.zeros(len(rows), np.int64)
        nears = NearMissRows(rows, none, level[rows] - 1, scores[rows], none)
        posts = [post for post, _ in self.posts]
        near_misses.add(posts, nears.posts, nears.events, nears.strata, nears.scores, nears.times)
        of_seeds = {s.id: tuple(edges.edges[n].tolist()) for n, s in enumerate(seeds.seeds)}
        return NearAnswer(
            EVENT, seeds.digest, of_seeds, near_misses.strata(EVENT), near_misses.post_count(EVENT)
        )


def town(context: ModelContext) -> Town:
    store = MatchMirror(context.config, StreamPeriod(lambda: NOW), lambda: None)
    store.begin(topic())
    return Town(context, stream(), store)


def scene(
    here: Town, now: ControlView, labels: Sequence[Label] = (), answers: Sequence[NearAnswer] = ()
) -> FigureData:
    measure = make_measure(here.context, now, EVENT)
    flow = StreamRate(len(here.posts), NOW - HOURS * HOUR, NOW)
    result = scored_matches(here.store, measure)
    labelled = EventScores(here.store, FixedModel(here.context, now)).labelled_scores(
        measure, result, labels
    )
    return FigureData(
        measure,
        result,
        tuple(labels),
        labelled,
        NearAnswers(tuple(answers), ()),
        flow,
        StreamPeriod(lambda: NOW),
    )


FAR = 1e-6


def true_scores(here: Town) -> F32:
    enc = here.context.enc
    rows = enc.articles(SEED_ROWS)
    return np.array([enc.posts([post.text]).similarity(rows).max() for post, _ in here.posts])


def label(post: Post, text: Verdict, by: str = "anna", drawn: str = "certify") -> Label:
    at = "2026-12-31T10:00:00Z"
    queue = QueueName("n", at, profile="a" * 12, test=1) if drawn == "certify" else UNSET
    return Label(text, EVENT, post, by, at, drawn, 0.5, queue=queue)  # type: ignore[arg-type]


@pytest.mark.parametrize("threshold", [{"threshold": 0.5}, {}])
def test_the_hourly_rates_are_those_of_all_posts(
    context: ModelContext, threshold: dict[str, float]
) -> None:
    here, now = town(context), view_of(context, seeds_of(**threshold))
    here.run(now.seeds, here.posts)
    measure = make_measure(context, now, EVENT)
    shown = scene(here, now, answers=[here.near(measure, now.seeds)])
    data, scores = figure_fields(shown), true_scores(here)
    rates = dict(zip(data["edges"], data["hourly"], strict=True))
    before = [(edge, rate) for edge, rate in rates.items() if rate is not None]
    assert [e for e in data["edges"] if e >= data["floor"]] == [edge for edge, _ in before]
    low, top = data["thresholds"]
    assert 0 < data["floor"] < low
    assert (low < top) == (not threshold)
    for edge, rate in before:
        if not low < edge < top:  # there a match is data with the score of the seed that it reaches
            assert rate == pytest.approx((scores >= edge).sum() / HOURS)
    assert sum(data["bins"]["matches"]) == data["matched"] >= (scores >= top).sum()
    assert data["hours"] == pytest.approx(HOURS)
    assert data["has_times"]
    assert not figure_fields(replace(shown, period=FilePeriod()))["has_times"]
    alone = figure_fields(replace(shown, near=NearAnswers((), ("no worker",))))
    assert (alone["floor"], alone["messages"]) == (None, ["no worker"])
    assert [rate for rate in alone["hourly"] if rate is not None] == [
        rate for edge, rate in before if edge >= top
    ]


def test_the_shares_of_the_background_are_those_of_a_slow_loop(context: ModelContext) -> None:
    here, now = town(context), view_of(context, seeds_of())
    data = figure_fields(scene(here, now))
    rows = context.enc.articles(SEED_ROWS)
    best = [float(context.automatic.judging[n : n + 1].similarity(rows).max())
            for n in range(len(context.automatic.judging))]  # fmt: skip
    for edge, share in zip(data["edges"], data["background"], strict=True):
        assert share == pytest.approx(1000 * np.mean([s >= edge for s in best]), abs=1000 / 400)
    assert sum(data["bins"]["background"]) == data["background_posts"] == len(best)
    assert data["is_automatic"]
    assert data["automatic"] == pytest.approx(data["thresholds"])


def test_rates_below_an_old_threshold_count_from_its_change(context: ModelContext) -> None:
    here, half = town(context), 450
    high, low = (view_of(context, seeds_of(threshold=t)) for t in (0.5, 0.3))
    here.run(high.seeds, here.posts[:half])
    here.run(low.seeds, here.posts[half:])
    data, scores = figure_fields(scene(here, low)), true_scores(here)
    rates = dict(zip(data["edges"], data["hourly"], strict=True))
    assert rates[0.6] == pytest.approx((scores >= 0.6).sum() / HOURS)
    last = max(at for (_, at), s in zip(here.posts[:half], scores, strict=False) if s >= 0.5)
    since = sum(s >= 0.4 for s in scores[half:])
    assert rates[0.4] == pytest.approx(since / ((NOW - last) / HOUR), rel=FAR)


def test_a_profile_is_measured_by_the_other_half_of_the_background(context: ModelContext) -> None:
    profile = profile_of(context.enc, EVENT, {name: ("", text) for name, text in SEEDS.items()})
    promise = {"precision": 0.8, "confidence": 0.9, "rate": 0.001}
    record = profile.record() | {"threshold": 0.55, "promise": promise}
    now = view_of(context, seeds_of() | {profile.id: record})
    here = town(context)
    here.run(now.seeds, here.posts)
    data = figure_fields(scene(here, now))
    assert (data["state"], data["compared"]) == ("in force", 1)
    assert data["background_posts"] == len(split_background(context.automatic.judging)[1])
    assert data["promise"] == {
        "precision": 0.8, "confidence": 0.9, "threshold": 0.55, "lapsed": "",
    }  # fmt: skip
    assert "passed in the last hour" in (promise_row(now.events[EVENT], 0.0001) or {})["lapsed"]
    broken = record | {"promise": promise | {"precision": "high"}}
    odd = view_of(context, seeds_of() | {profile.id: broken})
    assert promise_row(odd.events[EVENT], None) is None


def test_labels_stand_at_their_scores_and_only_drawn_ones_estimate_a_share(
    context: ModelContext,
) -> None:
    here, now = town(context), view_of(context, seeds_of(threshold=0.3))
    here.run(now.seeds, here.posts)
    scores = {post.id: s for (post, _), s in zip(here.posts, true_scores(here), strict=True)}
    above = sorted((p for p, _ in here.posts if scores[p.id] >= 0.3), key=lambda p: -scores[p.id])
    drawn = [post for post in above if is_certify_post(("plain", post.id))]
    below = next(post for post, _ in here.posts if scores[post.id] < 0.1)
    labels = [label(post, "off" if n % 5 == 4 else "on") for n, post in enumerate(drawn)]
    labels += [label(drawn[0], "off", "ben", "given"), label(below, "unsure", "ben", "learn")]
    data = figure_fields(scene(here, now, labels))
    labelled = {(round(score, 5), text) for score, text in data["labelled_scores"]}
    assert len(data["labelled_scores"]) == len(drawn) + 1
    assert (round(float(scores[below.id]), 5), "unsure") in labelled
    assert (round(float(scores[drawn[0].id]), 5), "unsure") in labelled  # two people do not agree
    gone = label(Post("gone", "plain", ""), "on", "ben", "learn")  # without its match or content
    assert (
        figure_fields(scene(here, now, [*labels, gone]))["labelled_scores"]
        == data["labelled_scores"]
    )
    last = data["summaries"][-1]
    assert (last["random_labels"], last["share"]) == (len(drawn), None)  # the near miss lies below
    lowest = next(each for each in reversed(data["summaries"]) if each["share"])
    on = [n % 5 != 4 for n, post in enumerate(drawn) if scores[post.id] >= lowest["least"] - FAR]
    assert lowest["share"][1] == pytest.approx(np.mean(on))
    assert data["lowest_covered"] == pytest.approx(min(scores[post.id] for post in drawn), abs=FAR)


def test_an_event_without_an_active_seed_has_an_empty_figure(context: ModelContext) -> None:
    stale = profile_of(context.enc, EVENT, {"old": ("", "storm flood")})
    data = figure_fields(scene(town(context), view_of(context, {stale.id: stale.record()})))
    assert (data["compared"], data["thresholds"], data["state"]) == (0, [], "stale")


def answer(*posts: Post) -> NearAnswer:
    remaining = tuple(NearMiss(post, 0.25) for post in posts)
    return NearAnswer(EVENT, "0" * 12, {"river": (0.5, 0.4, 0.3)}, (Stratum(9, remaining),), 100)


def test_the_newest_come_first_with_contributions(context: ModelContext) -> None:
    measure = make_measure(context, view_of(context, seeds_of()), EVENT)
    posts = [
        Post("1", "x", "storm cat", created_at="2026-11-22T10:00:00Z"),
        Post("2", "x", "the river", created_at="yesterday"),
        Post("3", "x", "flood music", created_at="Sun Nov 22 11:00:00 +0000 2026"),
    ]
    rows = near_rows(measure, [answer(*posts)], {("x", "1"): "off"})
    assert [row["id"] for row in rows] == ["3", "1", "2"]
    assert [row["label"] for row in rows] == [None, "off", None]
    assert [row["created_at"] for row in rows][2] is None
    best = context.enc.posts(["storm cat"]).similarity(measure.rows)[0].argmax()
    (parts,) = context.enc.contributions(["storm cat"], measure.rows, [(0, int(best))])
    assert dict(rows[1]["why"]) == {word: round(part, 6) for word, part in parts if round(part, 6)}


def test_near_misses_are_bounded(context: ModelContext) -> None:
    measure = make_measure(context, view_of(context, seeds_of()), EVENT)
    posts = [Post(str(n), "x", "storm " * 300, author="a" * 900, url="u" * 5000) for n in range(99)]
    rows = near_rows(measure, [answer(*posts)], {})
    assert len(rows) == MAX_ROWS
    assert {(len(row["text"]), len(row["author"]), row["url"]) for row in rows} == {
        (MAX_LIST_TEXT_CHARS, MAX_AUTHOR_CHARS, None)
    }


def test_a_measure_is_the_same_object_until_the_control_topic_changes(
    context: ModelContext,
) -> None:
    model = FixedModel(context, view_of(context, seeds_of()))
    scores = EventScores(MatchMirror(context.config, StreamPeriod(), lambda: None), model)
    first = scores.measure(EVENT)
    assert scores.measure(EVENT) is first
    model.current_view = view_of(context, seeds_of(threshold=0.5))
    assert scores.measure(EVENT).thresholds.tolist() == [0.5, 0.5]


def test_posts_are_counted_since_the_first_of_a_day(kafka: Kafka) -> None:
    ages = [30 * HOUR, 20 * HOUR, 5 * HOUR, HOUR - 1, 5]
    for n, age in enumerate(ages):
        kafka.send(POSTS, b"{}", at=NOW - age, partition=n % 3)
    with connected(load_config()) as cluster:
        result = read_stream_rate(cluster, POSTS, NOW)
        assert result == StreamRate(4, NOW - 20 * HOUR, NOW)
        assert result.hourly == pytest.approx(4 / 20)
        later = read_stream_rate(cluster, POSTS, NOW + 2 * DAY_MS)
    assert (later.posts, later.hourly, later.since) == (0, 0.0, NOW + 2 * DAY_MS)


def test_posts_that_no_worker_has_read_are_not_processed(kafka: Kafka) -> None:
    for n, age in enumerate([2 * HOUR, HOUR - 1, HOUR - 2, 5, 4]):
        kafka.send(POSTS, b"{}", at=NOW - age, partition=n // 4)
    config = load_config()
    with connected(config) as cluster:
        assert count_processed(cluster, config, NOW - HOUR) == 4
        kafka.commit(config.kafka.group, POSTS, {0: 3})
        assert count_processed(cluster, config, NOW - HOUR) == 2


def test_an_unreachable_broker_and_worker_are_reported() -> None:
    config = Config(
        kafka=KafkaConfig(bootstrap_servers="127.0.0.1:9"), desk=DeskConfig(workers="127.0.0.1:9")
    )
    monitor = StreamMonitor(config)
    traffic, near = monitor.stream_rate(), monitor.near_misses("fire")
    assert (traffic.hourly, monitor.processed(), near.answers) == (0, 0, ())
    assert all("127.0.0.1:9" in text for text in (traffic.why, *near.messages))
