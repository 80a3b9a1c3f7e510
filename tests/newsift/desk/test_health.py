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
    HealthSnapshot,
    PolledValue,
    ViewerPresence,
    is_growing,
    list_problems,
    query_worker,
    query_workers,
    summarise,
)
from tests.broker.clients import until
from tests.newsift.desk.client import DEADLINE_S
from tests.newsift.desk.matched import HOSTILE
from tests.newsift.worker_web import answering, worker_web
from worker.errors import BrokerError
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
        row = query_worker(address)
    assert (row["error"], row["ready"], row["reason"]) == ("", False, "seeds are read")
    with worker_web(full(), Health("")) as address:
        row = query_worker(address)
    assert {name: row[name] for name in ("error", "ready", "reason", "model", "seed_set")} == {
        "error": "", "ready": True, "reason": "", "model": "ab" * 32, "seed_set": "5" * 12,
    }  # fmt: skip
    assert (row["offsets_lost"], row["open_transaction_s"], row["paused"]) == (7, 150, 1)
    assert row["version"]


def test_an_unreachable_worker_hides_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    with worker_web(full(), Health("")) as address:
        rows = query_workers([nobody, address])
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
        row = query_worker(address)
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
    assert one.row() == {"error": NOT_YET, "since": None}
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


def test_a_failure_has_its_reason_and_since_when(viewers: ViewerPresence) -> None:
    ask = Mock(side_effect=[1, BrokerError("broker: away"), ValueError("odd"), 2])
    one = PolledValue[int]("x", ask, viewers, lambda: None)
    polled = []
    for _ in range(4):
        one.poll()
        polled.append((one.value, one.error, one.since))
    assert [row[:2] for row in polled] == [
        (1, ""), (1, "broker: away"), (1, "ValueError: odd"), (2, ""),
    ]  # fmt: skip
    since = [row[2] for row in polled]
    assert since[1] == since[2]
    assert since == sorted(since)


GROUP = {"all_members": 1, "all_partitions": 4, "lag": 7}
WORKER = {"address": "127.0.0.1:6066", "error": "", "ready": True, "reason": "", "paused": 0.0,
          "model": "m"}  # fmt: skip
TOPIC = {"topic": "tweets", "setting": "cleanup.policy", "actual": "compact", "required": "delete",
         "why": "w", "fix": "kafka-configs.sh", "serious": True}  # fmt: skip
WELL = HealthSnapshot("", GROUP, False, [WORKER], [])


def worker(**parts: Any) -> HealthSnapshot:
    return replace(WELL, workers=[WORKER | parts])


@pytest.mark.parametrize(
    "snapshot",
    [
        WELL,
        worker(error="x", ready=False),  # the broker knows it, its web server is elsewhere
        worker(offsets_lost=0.0, open_transaction_s=5.0),
        replace(WELL, topics=[TOPIC | {"serious": False}]),
    ],
)
def test_all_well(snapshot: HealthSnapshot) -> None:
    assert summarise(snapshot) == {"state": "good", "text": "all well", "problems": []}


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (replace(WELL, group=GROUP | {"all_members": 0}), "start one with: faust -A worker worker"),
        (replace(WELL, labels_left_out=1_234), "1,234 labels are left out"),
        (replace(WELL, grows=True), "7 wait; start another worker, up to 4"),
        (worker(ready=False, reason="reads seeds"), "is not ready: reads seeds"),
        (worker(paused=1.0), "127.0.0.1:6066 is paused"),
        (worker(offsets_lost=1234.0), "lost 1,234 posts"),
        (worker(open_transaction_s=500.0), "transaction"),
        (replace(WELL, workers=[WORKER, WORKER | {"model": "n"}]), "run different models"),
        (replace(WELL, topics=[TOPIC]), "must be delete; kafka-configs.sh"),
        (
            replace(WELL, broker_error="nobody listens", topics=[TOPIC]),
            "does not answer: nobody listens",
        ),
    ],
)
def test_each_problem_has_its_line(snapshot: HealthSnapshot, words: str) -> None:
    (problem,) = list_problems(snapshot)
    assert words in problem
    assert summarise(snapshot)["state"] == "bad"


def test_the_state_is_unknown_before_the_first_poll() -> None:
    assert summarise(replace(WELL, broker_error=NOT_YET, group=None))["state"] == "unknown"


def test_texts_of_strangers_are_single_lines_of_bounded_length() -> None:
    odd = HOSTILE * 200
    problems = list_problems(
        replace(WELL, workers=[WORKER | {"ready": False, "reason": odd}] * 100)
    )
    assert len(problems) == 50
    assert all(each.isprintable() and len(each) <= 400 for each in problems)


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
