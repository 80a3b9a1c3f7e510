import pytest

from newsift.desk.api import MAX_AUTHOR_CHARS
from newsift.desk.matches import MatchStore
from newsift.desk.scoring import EventScores, StreamMonitor, make_measure
from newsift.desk.views.events import MAX_LIST_TEXT_CHARS
from newsift.desk.views.scores import MAX_ROWS, near_rows
from newsift.operations.cluster_status import StreamRate, read_stream_rate
from newsift.operations.model_context import ModelContext
from tests.newsift.desk.scene import EVENT, FixedModel, seeds_of, view_of
from tests.worker.kafka_side import POSTS, Kafka
from worker.config import Config, DeskConfig, KafkaConfig, load_config
from worker.kafka.reading import connected
from worker.match.reservoir import NearAnswer, NearMiss, Stratum
from worker.posts.outcome import Post
from worker.posts.times import DAY_MS, HOUR_MS


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
    scores = EventScores(MatchStore(context.config), model)
    first = scores.measure(EVENT)
    assert scores.measure(EVENT) is first
    model.current_view = view_of(context, seeds_of(threshold=0.5))
    assert scores.measure(EVENT).cuts.tolist() == [0.5, 0.5]


NOW = 1_795_000_000_000


def test_posts_are_counted_since_the_first_of_a_day(kafka: Kafka) -> None:
    ages = [30 * HOUR_MS, 20 * HOUR_MS, 5 * HOUR_MS, HOUR_MS - 1, 5]
    for n, age in enumerate(ages):
        kafka.send(POSTS, b"{}", at=NOW - age, partition=n % 3)
    with connected(load_config()) as cluster:
        result = read_stream_rate(cluster, POSTS, NOW)
        assert result == StreamRate(4, NOW - 20 * HOUR_MS, NOW, 2)
        assert result.hourly == pytest.approx(4 / 20)
        later = read_stream_rate(cluster, POSTS, NOW + 2 * DAY_MS)
    assert (later.posts, later.hourly, later.since) == (0, 0.0, NOW + 2 * DAY_MS)


def test_an_unreachable_broker_and_worker_are_reported() -> None:
    config = Config(
        kafka=KafkaConfig(bootstrap_servers="127.0.0.1:9"), desk=DeskConfig(workers="127.0.0.1:9")
    )
    monitor = StreamMonitor(config)
    traffic, near = monitor.stream_rate(), monitor.near_misses("fire")
    assert (traffic.hourly, near.answers) == (0, ())
    assert all("127.0.0.1:9" in text for text in (traffic.why, *near.messages))
