"""Queues are drawn once, kept while they are used, and drawn again with a reason."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import pytest

from encoder.errors import InputError, NewsiftError
from newsift.desk import labelling
from newsift.desk.labelling import ActiveQueue, LabelQueues, QueueKey
from newsift.desk.mirrors import TopicMirrors
from newsift.desk.threads import DaemonExecutor
from newsift.operations.labels import LabelTopic
from newsift.statistics.labels import LabelState
from tests.newsift.desk.client import until
from tests.worker.judged import match
from tests.worker.kafka_side import LABELS, MATCHES, Kafka
from worker.config import load_config
from worker.kafka.reading import TopicReader
from worker.seeds.state import ControlState

ANN = QueueKey("storm", "ann", "certify")
NAMES = [str(n) for n in range(60)]


class FakeMirrors:
    def __init__(self) -> None:
        self.seconds = 0.0
        self.version: str | None = ""
        self.labels = LabelState({})

    def clock(self) -> float:
        return self.seconds

    def catch_up(self, cluster: TopicReader) -> None:
        if cluster.exists(LABELS):
            self.labels = LabelTopic(cluster, load_config()).state()

    @property
    def control(self) -> ControlState:
        profile = SimpleNamespace(
            version=self.version, promise=None, made={}, record=dict, before=()
        )
        profiles: Any = {ANN.event: profile} if self.version else {}
        return ControlState({}, profiles, {}, {}, complete=self.version is not None)


@pytest.fixture
def at() -> FakeMirrors:
    return FakeMirrors()


@pytest.fixture(autouse=True)
def without_a_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(labelling, "token_hex", lambda _: "")


@contextmanager
def judging(at: FakeMirrors) -> Iterator[LabelQueues]:
    created = LabelQueues(load_config(), cast(TopicMirrors, at), DaemonExecutor(4), at.clock)
    try:
        yield created
    finally:
        created.stop()


def drawn_queue(queues: LabelQueues, whose: QueueKey = ANN) -> ActiveQueue:
    until(lambda: queues.queue(whose))
    queue = queues.queue(whose)
    assert queue is not None
    return queue


def test_a_queue_is_drawn_once_for_all_tabs(kafka: Kafka, at: FakeMirrors) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as queues:
        first = drawn_queue(queues).session
        kafka.fill(MATCHES, [match(str(n)) for n in range(100, 200)])
        assert drawn_queue(queues).session is first
        assert queues.of(ANN, first.token) is first
        assert first.size == len(NAMES)
        ben = drawn_queue(queues, ANN._replace(by="ben")).session
        assert (ben.size, ben.token != first.token) == (160, True)
        assert queues.of(ANN, first.token) is first


def test_another_profile_begins_another_queue(kafka: Kafka, at: FakeMirrors) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as queues:
        first = drawn_queue(queues)
        assert first.why == ""
        at.version = "0123456789ab"
        with pytest.raises(InputError, match="asked no longer"):
            queues.of(ANN, first.session.token)
        second = drawn_queue(queues)
        assert "the event's profile is another one" in second.why
        assert second.session.token != first.session.token


def test_half_a_day_without_an_answer_ends_a_queue(kafka: Kafka, at: FakeMirrors) -> None:
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    with judging(at) as queues:
        first = drawn_queue(queues)
        at.seconds = labelling.IDLE_S
        assert drawn_queue(queues).session is first.session
        at.seconds *= 2.1
        second = drawn_queue(queues)
        assert "half a day" in second.why
        queues.discard(ANN, first.session.token)  # of a tab that shows the first
        assert drawn_queue(queues).session is second.session
        queues.discard(ANN, second.session.token)
        assert drawn_queue(queues).session is not second.session


def test_an_empty_queue_is_drawn_again_after_some_time(kafka: Kafka, at: FakeMirrors) -> None:
    with judging(at) as queues:
        assert drawn_queue(queues).session.empty
        kafka.fill(MATCHES, [match(n) for n in NAMES])
        for _ in range(4):  # a page that asks again and again
            assert drawn_queue(queues).session.empty
            at.seconds += labelling.EMPTY_S / 3
        assert not drawn_queue(queues).session.empty


def test_the_least_recently_used_queue_is_discarded(
    kafka: Kafka, at: FakeMirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labelling, "MOST_POSTS", 2 * len(NAMES))
    kafka.fill(MATCHES, [match(n) for n in NAMES])
    three = [ANN._replace(by=by) for by in ("a", "b", "c")]
    with judging(at) as queues:
        tokens = [drawn_queue(queues, whose).session.token for whose in three[:2]]
        queues.of(three[0], tokens[0])
        drawn_queue(queues, three[2])
        assert queues.of(three[0], tokens[0]).token == tokens[0]
        with pytest.raises(InputError, match="asked no longer"):
            queues.of(three[1], tokens[1])


def test_an_unreachable_broker_is_reported(
    at: FakeMirrors, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA", "127.0.0.1:1")
    with judging(at) as queues:
        for _ in range(2):
            with pytest.raises(NewsiftError, match="broker"):
                drawn_queue(queues)
        with pytest.raises(NewsiftError, match="broker"):
            queues.outbox.publish(b"key", b"value")


def test_few_draws_run_at_once(at: FakeMirrors, kafka: Kafka) -> None:
    go = Event()
    at.catch_up = lambda _cluster: go.wait(20)  # type: ignore[assignment]
    keys = [ANN._replace(by=by) for by in ("a", "b", "c")]
    with judging(at) as queues:
        assert [queues.queue(key) for key in keys] == [None] * 3
        assert len(queues._draws) == labelling.MOST_DRAWS
        go.set()
        assert all(drawn_queue(queues, key).session.empty for key in keys)
