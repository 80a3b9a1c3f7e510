"""Queues that are asked: frozen once, kept while they are, and begun anew with a reason."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest

from encoder.errors import InputError, NewsiftError
from newsift.broker.server import running
from newsift.desk import label_queues as room
from newsift.desk.label_queues import ActiveQueue, LabelQueues, QueueKey
from newsift.desk.mirrors import TopicMirrors
from newsift.operations.labels import LabelTopic
from newsift.statistics.labels import LabelState
from tests.worker.judged import drawn, labels, match
from tests.worker.kafka_side import LABELS, MATCHES, PARTITIONS, Kafka, broker_of_its_own
from worker.config import load_config
from worker.kafka.reading import TopicReader
from worker.seeds.state import ControlState

ANN = QueueKey("storm", "ann", "certify")
NAMES = [str(n) for n in range(60)]
DEADLINE_S = 60.0


class At:
    """A clock that a test moves, and the mirrors with the version of every profile."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.version: str | None = ""
        self.labels = LabelState({})

    def clock(self) -> float:
        return self.seconds

    def catch_up(self, cluster: TopicReader) -> None:
        """Read the labels; the control topic is what the test sets."""
        if cluster.exists(LABELS):
            self.labels = LabelTopic(cluster, load_config()).state()

    @property
    def control(self) -> ControlState:
        """A control topic in which the event has a profile of this version; None: not read yet."""
        profile = SimpleNamespace(
            version=self.version, promise=None, made={}, record=dict, before=()
        )
        profiles: Any = {ANN.event: profile} if self.version else {}
        return ControlState({}, profiles, {}, {}, complete=self.version is not None)


@pytest.fixture
def at() -> At:
    return At()


@pytest.fixture(autouse=True)
def without_a_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queues in the order that `drawn` gives."""
    monkeypatch.setattr(room, "token_hex", lambda _: "")


@contextmanager
def judging(at: At) -> Iterator[LabelQueues]:
    made = LabelQueues(load_config(), cast(TopicMirrors, at), at.clock)
    try:
        yield made
    finally:
        made.stop()


def kept(queues: LabelQueues, whose: QueueKey = ANN) -> ActiveQueue:
    """The queue, once it is frozen."""
    until = time.monotonic() + DEADLINE_S
    while (queue := queues.queue(whose)) is None:
        assert time.monotonic() < until, "it is not frozen"
    return queue


def test_a_queue_is_frozen_once_for_all_tabs_and_what_comes_later_is_not_in_it(
    kafka: Kafka, at: At
) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as found:
        first = kept(found).session
        kafka.fill(MATCHES, [match(str(n)) for n in range(100, 200)])
        assert kept(found).session is first
        assert found.of(ANN, first.token) is first
        assert first.size == len(NAMES)
        ben = kept(found, ANN._replace(by="ben")).session
        assert (ben.size, ben.token != first.token) == (160, True)
        assert found.of(ANN, first.token) is first


def test_the_first_label_makes_the_topic_and_a_queue_goes_on_where_it_was(
    kafka: Kafka, at: At
) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    order = drawn(NAMES)
    with judging(at) as found:
        queue = kept(found).session
        assert queue.answer(("x", order[0]), "on") is None
        assert queue.answer(("x", order[1]), "off") is None
        assert queue.answer(("x", order[2]), "unsure") is None
        queue.undo(queue.state()["undo"]["step"])
    assert labels(kafka) == [
        (order[0], "on"), (order[1], "off"), (order[2], "unsure"), (order[2], None)
    ]  # fmt: skip
    with judging(at) as found:
        state = kept(found).session.state()
    assert (state["question"]["id"], state["judged"]) == (order[2], 2)


def test_another_profile_begins_another_queue_and_says_so(kafka: Kafka, at: At) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as found:
        first = kept(found)
        assert first.why == ""
        at.version = "0123456789ab"
        with pytest.raises(InputError, match="asked no longer"):
            found.of(ANN, first.session.token)
        second = kept(found)
        assert "the event's profile is another one" in second.why
        assert second.session.token != first.session.token


def test_half_a_day_of_silence_ends_a_queue_and_somebody_can(kafka: Kafka, at: At) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as found:
        first = kept(found)
        at.seconds = room.IDLE_S
        assert kept(found).session is first.session
        at.seconds *= 2.1
        second = kept(found)
        assert "half a day" in second.why
        found.begin_anew(ANN, first.session.token)  # of a tab that shows the first
        assert kept(found).session is second.session
        found.begin_anew(ANN, second.session.token)
        assert kept(found).session is not second.session


def test_without_a_match_it_is_looked_at_again(kafka: Kafka, at: At) -> None:
    with judging(at) as found:
        assert kept(found).session.empty
        kafka.fill(MATCHES, [match(n) for n in NAMES])
        for _ in range(4):  # a page that asks again and again
            assert kept(found).session.empty
            at.seconds += room.EMPTY_S / 3
        assert not kept(found).session.empty


def test_a_draw_that_fails_for_want_of_time_is_told_and_drawn_anew(
    kafka: Kafka, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    def late(*_: object) -> None:
        raise TimeoutError("the labels")

    with judging(at) as found:
        with monkeypatch.context() as patched:
            patched.setattr(at, "catch_up", late)
            with pytest.raises(TimeoutError, match="the labels"):
                kept(found)
        assert kept(found).session.empty


def test_the_queue_that_was_asked_longest_ago_goes(
    kafka: Kafka, at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST_POSTS", 2 * len(NAMES))
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    three = [ANN._replace(by=by) for by in ("a", "b", "c")]
    with judging(at) as found:
        tokens = [kept(found, whose).session.token for whose in three[:2]]
        found.of(three[0], tokens[0])
        kept(found, three[2])
        assert found.of(three[0], tokens[0]).token == tokens[0]
        with pytest.raises(InputError, match="asked no longer"):
            found.of(three[1], tokens[1])


def test_a_broker_that_is_away_is_told_to_who_asks(at: At, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA", "127.0.0.1:1")
    with judging(at) as found:
        for _ in range(2):
            with pytest.raises(NewsiftError, match="broker"):
                kept(found)
        with pytest.raises(NewsiftError, match="broker"):
            found.outbox.publish(b"key", b"value")


def test_labels_go_on_when_the_broker_is_there_again(
    at: At, monkeypatch: pytest.MonkeyPatch
) -> None:
    with broker_of_its_own() as kafka:
        port = str(kafka.address).rpartition(":")[2]
        monkeypatch.setenv("NEWSIFT_KAFKA", str(kafka.address))
        kafka.fill(MATCHES, [match(n) for n in NAMES])
        found = LabelQueues(load_config(), cast(TopicMirrors, at), at.clock)
        queue = kept(found).session
        assert queue.answer(("x", drawn(NAMES)[0]), "on") is None
    second = drawn(NAMES)[1]
    with pytest.raises(NewsiftError, match=port):
        queue.answer(("x", second), "on")
    assert queue.state()["judged"] == 1
    with running(int(port), auto_create=False) as address:
        again = Kafka(address)
        again.make(*PARTITIONS)
        assert queue.answer(("x", second), "on") is None
        assert labels(again) == [(second, "on")]
        found.stop()
