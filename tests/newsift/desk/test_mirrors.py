"""The mirrors of the control topic and of labels: the same as reading both anew."""

import json
import time
from collections.abc import Callable

from newsift.desk.mirrors import TopicMirrors
from newsift.operations.labels import label_topic
from newsift.operations.seed_topic import seed_topic
from tests.newsift.desk.matched import label
from tests.worker.kafka_side import SEEDS, Kafka
from worker.config import load_config


def until(holds: Callable[[], object]) -> None:
    """Wait for a condition, not for ever."""
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, "it does not come to hold"
        time.sleep(0.02)


def test_it_is_what_the_commands_read_and_each_change_has_a_version(kafka: Kafka) -> None:
    for n in range(5):
        kafka.send(SEEDS, json.dumps({"text": f"a ferry {n}"}).encode(), b"s%d" % (n % 3))
    kafka.send(SEEDS, None, b"s0")
    kafka.send(SEEDS, b"{", b"broken")
    label(kafka, "p1", "on")
    moved = list[str]()
    mirrors = TopicMirrors(load_config(), lambda *parts: moved.extend(parts))
    mirrors.start()
    try:
        until(lambda: mirrors.control.complete and mirrors.labels.complete)
        before = mirrors.control
        with seed_topic(load_config()) as topic:
            assert topic.state() == before
            assert topic.state().digest == before.digest
        assert sorted(before.seeds) == ["s1", "s2"]
        assert list(before.refused) == [b"broken"]
        with label_topic(load_config()) as labels:
            assert labels.state() == mirrors.labels
        assert mirrors.control is before
        kafka.send(SEEDS, json.dumps({"text": "a fire"}).encode(), b"s9")
        until(lambda: mirrors.control is not before)
        assert "s9" not in before.seeds
        assert sorted(mirrors.control.seeds) == ["s1", "s2", "s9"]
        assert {"seeds", "events", "labels"} <= set(moved)
    finally:
        mirrors.stop()
