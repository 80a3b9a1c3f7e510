"""The matches that labels are held against: read again when they are old, and few events kept."""

from newsift.desk.evidence import FRESH_S, MOST_EVENTS, RecentMatches
from tests.worker.judged import match
from tests.worker.kafka_side import MATCHES, Kafka
from worker.config import load_config


def test_matches_are_read_again_once_they_are_old(kafka: Kafka) -> None:
    now = [0.0]
    recent = RecentMatches(load_config(), lambda: now[0])
    kafka.fill(MATCHES, [match("1"), match("2", event="quake")])
    assert [*recent.of("storm")] == [("x", "1")]
    kafka.fill(MATCHES, [match("3")])
    now[0] = FRESH_S - 1
    assert [*recent.of("storm")] == [("x", "1")]
    now[0] = FRESH_S
    assert [*recent.of("storm")] == [("x", "1"), ("x", "3")]


def test_of_the_events_the_latest_are_kept(kafka: Kafka) -> None:
    recent = RecentMatches(load_config(), lambda: 0.0)
    names = [f"e{n}" for n in range(MOST_EVENTS + 1)]
    kept = {name: recent.of(name) for name in names}
    assert recent.of(names[-1]) is kept[names[-1]]
    assert recent.of(names[1]) is kept[names[1]]
    assert recent.of(names[0]) is not kept[names[0]]
