"""What is known of the control topic and of labels: the same as reading both anew."""

import json
import time
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from tests.worker.desk.matched import label
from tests.worker.desk.test_board import Mail
from tests.worker.kafka_side import SEEDS, Kafka
from worker.actions.labels.topic import label_topic
from worker.actions.seeds.topic import seed_topic
from worker.config import Config, load_config
from worker.desk.known import ControlRecords, Known


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
    known = Known(load_config(), lambda *parts: moved.extend(parts))
    known.start()
    try:
        until(lambda: known.of_seeds.ready.is_set() and known.of_labels.ready.is_set())
        before = known.control
        with seed_topic(load_config()) as topic:
            latest = topic.latest()
        told = {key: each.value for key, each in before.latest.items()}
        assert told == {key: each.value for key, each in latest.items()}
        assert [seed.id for seed in before.book.seeds] == ["s1", "s2"]
        assert [seed.id for seed in before.book.refused] == ["broken"]
        with label_topic(load_config()) as labels:
            assert known.labels.of("ferry") == labels.book().of("ferry")
        assert known.control is before
        kafka.send(SEEDS, json.dumps({"text": "a fire"}).encode(), b"s9")
        until(lambda: known.control.version != before.version)
        assert b"s9" not in before.values
        assert [seed.id for seed in known.control.book.seeds] == ["s1", "s2", "s9"]
        assert {"seeds", "events", "labels"} <= set(moved)
    finally:
        known.stop()


KEYS = st.sampled_from([None, b"a", b"b", b"c" * 300])
VALUES = st.none() | st.binary(max_size=600) | st.just(b'{"text": "a ferry"}')


@given(st.lists(st.tuples(KEYS, VALUES)))
def test_the_latest_of_each_key_stands_within_the_room(
    rows: list[tuple[bytes | None, bytes | None]],
) -> None:
    records = ControlRecords(Config(), room=3000)
    records.take([Mail(value, key=key, topic="seeds") for key, value in rows])
    now = records.now()
    assert sum(512 + len(k or b"") + len(r.value or b"") for k, r in now.latest.items()) <= 3000
    assert all(record.value == dict(rows)[key] for key, record in now.latest.items())
    assert now.left_out or now.latest.keys() == dict(rows).keys()
