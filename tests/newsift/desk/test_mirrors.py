import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import repeat
from threading import Event
from types import SimpleNamespace

import pytest

import encoder
from encoder.errors import InputError
from newsift.desk import mirrors
from newsift.desk.mirrors import FollowTimes, TopicConsumer, TopicFollower, TopicMirrors
from newsift.desk.model import DeskModel
from newsift.desk.period import StreamPeriod
from newsift.operations.labels import label_topic
from newsift.operations.matches import read_matches
from newsift.operations.model_context import ModelContext
from newsift.operations.seed_topic import seed_topic
from tests.broker.clients import admin, create, until
from tests.newsift.desk.desk_client import DEADLINE_S
from tests.newsift.desk.match_records import label
from tests.worker.command_topics import LABELS, MATCHES, PARTITIONS, SEEDS, Kafka, hide
from tests.worker.judged_matches import match
from tests.worker.small_encoder import same, value
from worker.config import Config
from worker.config.load import load_config
from worker.errors import BrokerError
from worker.kafka.reading import Offsets, StoredMessage, TopicReader, connected
from worker.seeds.state import ControlState, parse_control_state


class Recorder(TopicConsumer):
    def __init__(self, topic: str) -> None:
        self.topic, self.values, self.begun, self.finished = topic, list[bytes | None](), 0, False
        self.obstacle: Callable[[], None] = lambda: None

    def begin(self, cluster: TopicReader) -> Offsets:
        self.values, self.begun = [], self.begun + 1
        return cluster.beginnings(self.topic)

    def take(self, batch: Sequence[StoredMessage]) -> None:
        if batch:
            self.obstacle()
        self.values += [message.value for message in batch]

    def finish(self) -> None:
        self.finished = True


@contextmanager
def followed(topic: str, **limits: float) -> Iterator[tuple[TopicFollower, Recorder]]:
    recorder = Recorder(topic)
    follower = TopicFollower(load_config(), topic, recorder, lambda: None, FollowTimes(**limits))
    follower.start()
    try:
        yield follower, recorder
    finally:
        follower.stop()
        follower._thread.join(DEADLINE_S)


def test_a_follower_reads_all_records_and_then_is_ready(kafka: Kafka) -> None:
    for partition in range(PARTITIONS[MATCHES]):
        kafka.fill(MATCHES, [b"%d" % n for n in range(700)], partition)
    with followed(MATCHES) as (follower, recorder):
        assert follower.ready.wait(DEADLINE_S)
        assert recorder.finished
        assert Counter(recorder.values) == dict.fromkeys((b"%d" % n for n in range(700)), 3)
        kafka.send(MATCHES, b"later")
        until(lambda: b"later" in recorder.values)
        assert (follower.error, recorder.begun) == ("", 1)


def test_a_missing_topic_is_logged_once_and_read_when_it_is_created(
    kafka: Kafka, caplog: pytest.LogCaptureFixture
) -> None:
    with followed("later", retry=0.05) as (follower, recorder):
        until(lambda: "has no topic 'later'" in follower.error)
        assert not follower.ready.is_set()
        create(str(kafka.address), "later")
        assert follower.ready.wait(DEADLINE_S)
        kafka.send("later", b"first")
        until(lambda: recorder.values == [b"first"])
    assert caplog.text.count("has no topic 'later'") == 1


def test_a_labels_topic_that_no_label_has_made_yet_is_no_warning(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with admin(kafka.address) as client:
        client.delete_topics([LABELS])
    with followed(LABELS, retry=0.05) as (follower, _):
        until(lambda: follower.missing)
        until(lambda: "has no topic" in follower.error)
        assert caplog.text == ""
        hide(monkeypatch, LABELS)
        until(lambda: "has no right on the topic" in follower.error)
        assert not follower.missing
    assert caplog.text.count(LABELS) > 0


def test_a_new_partition_is_read_and_nothing_twice(kafka: Kafka) -> None:
    create(str(kafka.address), "grows")
    kafka.send("grows", b"old")
    with followed("grows", retry=0.05, partitions=0.1) as (_, recorder):
        until(lambda: recorder.values == [b"old"])
        with admin(str(kafka.address)) as client:
            client.create_partitions({"grows": 2})
        kafka.send("grows", b"new", partition=1)
        until(lambda: b"new" in recorder.values)
        assert (recorder.values, recorder.begun) == ([b"old", b"new"], 1)


@pytest.mark.parametrize(
    ("count", "while_away", "limits"),
    [(1, False, {}), (9, False, {"partitions": 0.1}), (9, True, {"partitions": 0.1})],
    ids=["fewer records", "more records", "more records while away"],
)
def test_a_topic_that_was_created_again_is_read_from_its_start(
    kafka: Kafka, count: int, while_away: bool, limits: dict[str, float]
) -> None:
    address, name = str(kafka.address), "again"
    create(address, name)
    kafka.fill(name, [b"old"] * 3)
    with followed(name, retry=0.05, **limits) as (follower, recorder):
        until(lambda: len(recorder.values) == 3)
        go = Event()

        def fail() -> None:
            go.wait(DEADLINE_S)
            raise BrokerError("it is away")

        if while_away:
            recorder.obstacle = fail
            kafka.send(name, b"fails")
        with admin(address) as client:
            client.delete_topics([name])
        create(address, name)
        kafka.fill(name, [b"new"] * count)
        recorder.obstacle = lambda: None
        go.set()
        until(lambda: recorder.values == [b"new"] * count)
        assert recorder.begun == 2
        assert follower.ready.wait(DEADLINE_S)


def test_after_a_long_pause_the_topic_is_read_again(kafka: Kafka) -> None:
    """Tombstones may be gone by then, and with them the news that a key was deleted."""
    name = "paused"
    create(str(kafka.address), name)
    kafka.fill(name, [b"old"] * 3)
    with followed(name, retry=1.2, max_pause=1.0) as (follower, recorder):
        until(lambda: len(recorder.values) == 3)

        def fail() -> None:
            recorder.obstacle = lambda: None
            raise BrokerError("it is away")

        recorder.obstacle = fail
        kafka.send(name, b"fails")
        until(lambda: recorder.begun >= 2 and len(recorder.values) == 4)
        assert follower.ready.wait(DEADLINE_S)


def test_a_follower_is_ready_at_a_transaction_marker(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic ends with a marker, which no record stands for."""

    def follow(topic: str, _start: Offsets) -> Iterator[list[SimpleNamespace]]:
        yield [SimpleNamespace(topic=topic, partition=0, offset=n, value=b"") for n in range(2)]
        yield from repeat([])

    ends = dict.fromkeys(("ends", "positions"), lambda _: {0: 3})
    cluster = SimpleNamespace(
        exists=lambda _: True, identity=lambda _: None, beginnings=lambda _: {0: 0}, follow=follow,
        **ends,
    )  # fmt: skip
    monkeypatch.setattr(mirrors, "connected", lambda _: nullcontext(cluster))
    with followed("any") as (follower, recorder):
        assert follower.ready.wait(DEADLINE_S)
        assert len(recorder.values) == 2


def test_mirrors_hold_what_commands_read_and_notify_changes(kafka: Kafka) -> None:
    for n in range(5):
        kafka.send(SEEDS, json.dumps({"text": f"a ferry {n}"}).encode(), b"s%d" % (n % 3))
    kafka.send(SEEDS, None, b"s0")
    kafka.send(SEEDS, b"{", b"broken")
    label(kafka, "p1", "on")
    kafka.fill(MATCHES, [match("1"), match("2", event="quake")])
    moved = list[str]()
    both = TopicMirrors(load_config(), StreamPeriod(), lambda *parts: moved.extend(parts))
    both.start()
    try:
        until(lambda: both.control.complete and both.labels.complete and both.has_matches())
        before = both.control
        with seed_topic(load_config()) as topic:
            assert topic.state() == before
            assert topic.state().digest == before.digest
        assert sorted(before.seeds) == ["s1", "s2"]
        assert list(before.refused) == [b"broken"]
        with label_topic(load_config()) as labels:
            assert labels.state() == both.labels
        assert both.control is before
        kafka.send(SEEDS, json.dumps({"text": "a fire"}).encode(), b"s9")
        until(lambda: both.control is not before)
        assert "s9" not in before.seeds
        assert sorted(both.control.seeds) == ["s1", "s2", "s9"]
        with connected(load_config()) as cluster:
            stored = read_matches(cluster, load_config(), 0, "storm").draw_rows("storm")
        assert [row.post_id for row in both.matches.draw_rows("storm")] == [("x", "1")]
        assert [row.value for row in stored] == [match("1")]
        assert {"seeds", "events", "labels", "matches"} <= set(moved)
    finally:
        both.stop()


def control(**seeds: str) -> ControlState:
    records = {name.encode(): value(text=text, event="flood") for name, text in seeds.items()}
    return parse_control_state(records)


def test_a_model_is_loaded_in_the_background(context: ModelContext) -> None:
    messages: list[str] = []
    model = DeskModel(context.config, lambda: control(), lambda: messages.append(model.error))
    assert (model.is_loading, model.seed_set_digest) == (True, "")
    with pytest.raises(InputError, match="model: the model is still being loaded"):
        model.wait(0)
    model.start()
    loaded = model.wait()
    assert model.context is loaded
    assert (model.error, messages, model.is_loading) == ("", [""], False)
    assert loaded.enc.digest == context.enc.digest


@pytest.mark.parametrize("broken", [InputError("model: no"), ZeroDivisionError("by zero")])
def test_a_model_that_cannot_be_loaded_is_reported(
    broken: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise broken

    monkeypatch.setattr(encoder, "load", refuse)
    changed = Event()
    model = DeskModel(Config(), lambda: control(), changed.set)
    model.start()
    with pytest.raises(InputError, match=str(broken)):
        model.wait()
    assert changed.wait(10)
    assert model.context is None
    assert str(broken) in model.error
    assert (model.is_loading, model.seed_set_digest) == (False, None)


def test_the_events_are_made_once_for_each_version_of_the_records(context: ModelContext) -> None:
    now = control(a="storm flood river")
    model = DeskModel(context.config, lambda: now, lambda: None)
    with pytest.raises(InputError, match="still being loaded"):
        model.view()
    model.start()
    model.wait()
    first = model.view()
    assert [seed.id for seed in model.view().events["flood"].seeds] == ["a"]
    assert model.view() is first
    now = control(a="storm flood river", b="city river")
    assert [seed.id for seed in model.view().events["flood"].seeds] == ["a", "b"]
    assert same(model.view().seeds, context.seed_set(now))
