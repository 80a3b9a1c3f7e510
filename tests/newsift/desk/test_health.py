import itertools
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from threading import Event
from typing import Any
from unittest.mock import Mock

import pytest

from newsift.desk import health
from newsift.desk.health import (
    NOT_YET,
    GroupState,
    HealthSnapshot,
    PolledValue,
    ViewerPresence,
    is_growing,
    list_problems,
    query_worker,
    query_workers,
    summarise,
)
from newsift.desk.session import Desk
from newsift.desk.views import events
from tests.broker.clients import until
from tests.newsift.desk.desk_client import DEADLINE_S, call, open_desk
from tests.newsift.desk.match_records import HOSTILE
from tests.newsift.worker_web import answering, worker_web
from tests.worker.command_topics import POSTS, SEEDS, Kafka
from worker.config import load_config
from worker.errors import BrokerError
from worker.metrics.address_file import WorkerAddress
from worker.metrics.registry import Metrics
from worker.metrics.web import Health


def full() -> Metrics:
    metrics = Metrics()
    metrics.model("ab" * 32, "kernel", 0.6)
    metrics.seeds({"live": 1, "refused": 2}, "5" * 12, 0.0)
    metrics.offsets_lost(7)
    metrics.open_transaction("tweets", 0, 3, 5.0)
    metrics.open_transaction("tweets", 1, 3, 150.0)
    metrics.begin_pause("output")
    return metrics


def test_a_worker_reports_its_state() -> None:
    with worker_web(Metrics(), Health("seeds are read")) as address:
        row = query_worker(WorkerAddress(address))
    assert (row["error"], row["ready"], row["reason"]) == ("", False, "seeds are read")
    with worker_web(full(), Health("")) as address:
        row = query_worker(WorkerAddress(address))
    assert {name: row[name] for name in ("error", "ready", "reason", "model")} == {
        "error": "", "ready": True, "reason": "", "model": "ab" * 32,
    }  # fmt: skip
    assert (row["offsets_lost"], row["open_transaction_s"], row["paused"]) == (7, 150, 1)


def test_an_unreachable_worker_hides_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    with worker_web(full(), Health("")) as address:
        rows = query_workers([WorkerAddress(nobody), WorkerAddress(address)])
    assert [row["address"] for row in rows] == [nobody, address]
    assert "this worker does not answer" in rows[0]["error"]
    assert rows[1]["ready"]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\n\r\n[1]",
        b"HTTP/1.1 200 OK\r\n\r\nnull",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b'HTTP/1.1 200 OK\r\n\r\n{"reason": {"a": 1}} x',
        b"HTTP/1.1 200 OK\r\n\r\nnewsift_seeds{ 1",
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
    ],
)
def test_any_answer_is_a_row(raw: bytes) -> None:
    with answering(raw) as address:
        row = query_worker(WorkerAddress(address))
    assert row["address"] == address
    assert row["error"] or not row.get("model")


@pytest.fixture
def viewers() -> Iterator[ViewerPresence]:
    created = ViewerPresence()
    yield created
    created.close()


def test_nothing_is_polled_while_no_page_is_open(
    viewers: ViewerPresence, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health, "PRESENCE_S", 0.2)
    calls: list[int] = []
    polls: list[int] = []
    one = PolledValue("x", lambda: calls.append(1), viewers, lambda: polls.append(1), every_s=0.001)
    one.start()
    assert one.error == NOT_YET
    time.sleep(0.05)
    assert calls == []
    viewers.note()
    until(lambda: len(polls) > 3)
    until(lambda: not viewers._arrival.is_set())  # no page is open any more
    time.sleep(0.02)  # an answer that was under way
    count = len(calls)
    time.sleep(0.05)
    assert len(calls) == count
    viewers.note()
    until(lambda: len(calls) > count)


def test_one_that_hangs_hides_no_other(viewers: ViewerPresence) -> None:
    stuck, count = Event(), itertools.count()
    hangs = PolledValue("hangs", lambda: stuck.wait(DEADLINE_S), viewers, lambda: None)
    works = PolledValue("works", lambda: next(count), viewers, lambda: None, every_s=0.001)
    hangs.start()
    works.start()
    viewers.note()
    until(lambda: (works.value or 0) > 3)
    assert (hangs.error, works.error) == (NOT_YET, "")
    stuck.set()


def test_a_failure_has_its_reason(viewers: ViewerPresence) -> None:
    ask = Mock(side_effect=[1, BrokerError("broker: away"), ValueError("odd"), 2])
    one = PolledValue[int]("x", ask, viewers, lambda: None)
    polled = []
    for _ in range(4):
        one.poll()
        polled.append((one.value, one.error))
    assert polled == [(1, ""), (1, "broker: away"), (1, "ValueError: odd"), (2, "")]


GROUP = GroupState(members=1, partitions=4, lag=7)
WORKER = {"address": "127.0.0.1:6066", "error": "", "ready": True, "reason": "", "paused": 0.0,
          "model": "m"}  # fmt: skip
WELL = HealthSnapshot("", GROUP, False, [WORKER])


def worker(**parts: Any) -> HealthSnapshot:
    return replace(WELL, workers=[WORKER | parts])


@pytest.mark.parametrize(
    "snapshot",
    [
        WELL,
        worker(error="x", ready=False),  # the broker knows it, its web server is elsewhere
        worker(offsets_lost=0.0, open_transaction_s=5.0),
    ],
)
def test_all_well(snapshot: HealthSnapshot) -> None:
    facts = ["the broker answers", "1 worker", "7 posts to read", "no refused seed"]
    assert summarise(snapshot) == {"state": "good", "facts": facts, "problems": []}


@pytest.mark.parametrize(
    ("snapshot", "words", "command"),
    [
        (replace(WELL, group=GROUP._replace(members=0)), "no worker runs", "faust -A worker"),
        (replace(WELL, grows=True), "7 wait; start another worker", "faust -A worker"),
        (
            replace(WELL, grows=True, group=GROUP._replace(members=4)),
            "each partition has a worker",
            "newsift status",
        ),
        (worker(ready=False, reason="reads seeds"), "is not ready: reads seeds", "newsift status"),
        (worker(paused=1.0), "127.0.0.1:6066 is paused", "newsift topics check"),
        (worker(offsets_lost=1234.0), "lost 1,234 posts", "newsift status"),
        (worker(open_transaction_s=500.0), "transaction", "newsift status"),
        (
            replace(WELL, workers=[WORKER, WORKER | {"model": "n"}]),
            "run different models",
            "newsift config show",
        ),
        (replace(WELL, refused_seeds=1_234), "1,234", "newsift seeds list"),
        (replace(WELL, unread={"tweets": "gone"}), "tweets: cannot be read", "newsift check"),
        (
            replace(WELL, broker_error="nobody listens", refused_seeds=3),
            "does not answer: nobody listens",
            "newsift check",
        ),
    ],
)
def test_each_problem_has_its_line(snapshot: HealthSnapshot, words: str, command: str) -> None:
    (problem,) = list_problems(snapshot)
    assert words in problem.text
    assert command in problem.command
    assert summarise(snapshot)["state"] == "bad"


def test_the_state_is_unknown_before_the_first_poll() -> None:
    assert summarise(replace(WELL, broker_error=NOT_YET, group=None))["state"] == "unknown"


def test_texts_of_strangers_are_single_lines_of_bounded_length() -> None:
    odd = HOSTILE * 200
    problems = list_problems(
        replace(WELL, workers=[WORKER | {"ready": False, "reason": odd}] * 100)
    )
    assert len(problems) == 50
    assert all(each.text.isprintable() and len(each.text) <= 400 for each in problems)


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ([5, 5, 6, 7, 9, 9, 9, 9, 9, 9, 9, 9, 10], True),
        ([5] * 13, False),
        ([5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 15], False),
        ([5, 6, 7], False),  # too short a time to tell
        ([], False),
    ],
)
def test_a_lag_grows_if_it_never_falls(lags: list[int], expected: bool) -> None:
    assert is_growing([(100.0 + 5 * n, lag) for n, lag in enumerate(lags)]) is expected


def test_a_lag_grows_only_while_it_is_read() -> None:
    assert not is_growing([(0.0, 0), (1000.0, 5), (1005.0, 9)])


@pytest.fixture
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DESK__WORKERS", "127.0.0.1:1")


def settled(desk: Desk) -> Any:
    until(lambda: call(desk, events.health)["state"] != "unknown")
    return call(desk, events.health)


@pytest.mark.usefixtures("_alone")
def test_the_strip_has_what_status_reports(kafka: Kafka) -> None:
    kafka.fill(POSTS, [b"{}"] * 5)
    kafka.commit("newsift-ingest", POSTS, {0: 3})
    kafka.send(SEEDS, b"{", b"odd")
    with open_desk() as desk:
        strip = settled(desk)
    assert strip["facts"] == ["the broker answers", "0 workers", "2 posts to read"]
    texts = [problem["text"] for problem in strip["problems"]]
    assert texts == [
        "no worker runs, so nothing is matched", "refused seeds, which match nothing: 1",
    ]  # fmt: skip


@pytest.mark.usefixtures("_alone")
def test_a_broker_that_is_away_is_the_only_problem(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA", "127.0.0.1:1")
    desk = Desk(load_config())
    (problem,) = settled(desk)["problems"]
    assert "nobody listens there" in problem["text"]
    desk.stop()
