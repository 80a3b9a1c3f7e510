"""What labels show of a promise: one object while nothing changes, by matches of the last day."""

from dataclasses import replace

from newsift.desk.promise_tests import FRESH_S, PromiseTests
from newsift.operations.labels import EventMatch
from newsift.statistics.labels import Label
from tests.worker.judged import match
from tests.worker.kafka_side import MATCHES, Kafka
from tests.worker.learned import profile_of
from tests.worker.small import ARTICLES, small_encoder
from worker.config import Config, load_config
from worker.posts.outcome import Post, PostId

LABEL = Label("on", "storm", Post("1", "x", "smoke"), "ann", "2026-11-20T10:00:00Z", "certify", 0.5)


def test_a_test_is_the_same_object_until_profile_labels_matches_or_target_change() -> None:
    tests = PromiseTests(Config())
    matches: dict[PostId, EventMatch] = {}
    profile = profile_of(small_encoder(), "storm", {"flood": ("", ARTICLES["flood"])})
    first = tests.of(profile, (LABEL,), matches, 0.8, 0.9)
    assert tests.of(profile, (LABEL,), matches, 0.8, 0.9) is first
    assert (first.result.threshold, first.result.matches, first.target.precision) == (None, 0, 0.8)
    other = tests.of(profile, (LABEL,), matches, 0.7, 0.9)
    assert other is not first
    assert tests.of(profile, (LABEL,), matches, 0.8, 0.9) is first
    for moved in (
        tests.of(profile, (), matches, 0.8, 0.9),
        tests.of(profile, (LABEL,), {}, 0.8, 0.9),
        tests.of(replace(profile, threshold=0.5), (LABEL,), matches, 0.8, 0.9),
    ):
        assert moved is not first


def test_matches_are_read_again_once_they_are_old(kafka: Kafka) -> None:
    now = [0.0]
    tests = PromiseTests(load_config(), lambda: now[0])
    kafka.fill(MATCHES, [match("1"), match("2", event="quake")])
    assert [*tests.matches("storm")] == [("x", "1")]
    kafka.fill(MATCHES, [match("3")])
    now[0] = FRESH_S - 1
    assert [*tests.matches("storm")] == [("x", "1")]
    now[0] = FRESH_S
    assert [*tests.matches("storm")] == [("x", "1"), ("x", "3")]
