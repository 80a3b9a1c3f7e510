import socket
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from kafka.errors import GroupAuthorizationFailedError

from newsift.desk import health
from newsift.desk.health import (
    GroupState,
    HealthMonitor,
    HealthSnapshot,
    is_growing,
    list_problems,
    query_worker,
    query_workers,
    summarise,
)
from newsift.desk.session import Desk
from newsift.desk.views import events
from tests.broker.clients import until
from tests.newsift.desk.desk_client import call, open_desk
from tests.newsift.desk.match_records import HOSTILE
from tests.newsift.worker_web import worker_web
from tests.worker.command_topics import POSTS, SEEDS, Kafka
from tests.worker.fake_web_server import answering
from worker.config import Config
from worker.config.load import load_config
from worker.metrics.address_file import WorkerAddress
from worker.metrics.web import Health
from worker.seeds.state import parse_control_state


def test_a_worker_reports_its_state_and_an_absent_one_hides_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    with (
        worker_web(Health("seeds are read")) as starting,
        worker_web(Health("")) as ready,
    ):
        addresses = [nobody, starting, ready]
        absent, *rows = query_workers([WorkerAddress(each) for each in addresses])
    assert "this worker does not answer" in absent["error"]
    assert rows == [
        {"address": starting, "error": "", "ready": False, "reason": "seeds are read"},
        {"address": ready, "error": "", "ready": True, "reason": ""},
    ]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\x00" * 100,
        b"HTTP/1.1 200 OK\r\n\r\n[1]",
        b"HTTP/1.1 200 OK\r\n\r\nnull",
        b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000,
        b'HTTP/1.1 200 OK\r\n\r\n{"reason": {"a": 1}} x',
        b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\n\r\n",
    ],
)
def test_any_answer_is_a_row(raw: bytes) -> None:
    with answering(raw) as address:
        row = query_worker(WorkerAddress(address))
    assert row["address"] == address
    assert row["error"] or not row["reason"]


GROUP = GroupState(members=1, partitions=4, lag=7)
WORKER = {"address": "127.0.0.1:6066", "error": "", "ready": True, "reason": ""}
WELL = HealthSnapshot("", GROUP, False, [WORKER])


def worker(**parts: Any) -> HealthSnapshot:
    return replace(WELL, workers=[WORKER | parts])


@pytest.mark.parametrize(
    "snapshot",
    [
        WELL,
        worker(error="x", ready=False),  # the broker knows it, its web server is elsewhere
    ],
)
def test_all_well(snapshot: HealthSnapshot) -> None:
    facts = ["the broker answers", "1 worker", "7 posts to read", "no refused seed"]
    assert summarise(snapshot) == {"state": "good", "facts": facts, "problems": []}


@pytest.mark.parametrize(
    ("snapshot", "words", "command"),
    [
        (
            replace(WELL, group=GROUP._replace(members=0), workers=()),
            "no worker runs",
            "faust -A worker",
        ),
        (
            replace(
                worker(ready=False, reason="the model is being loaded"),
                group=GROUP._replace(members=0),
            ),
            "is not ready: the model is being loaded",
            "newsift status",
        ),
        (replace(WELL, grows=True), "7 wait; start another worker", "faust -A worker"),
        (
            replace(WELL, grows=True, group=GROUP._replace(members=4)),
            "each partition has a worker",
            "newsift status",
        ),
        (worker(ready=False, reason="reads seeds"), "is not ready: reads seeds", "newsift status"),
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


@pytest.mark.usefixtures("_alone")
def test_the_strip_has_what_status_reports(kafka: Kafka) -> None:
    kafka.fill(POSTS, [b"{}"] * 5)
    kafka.commit("newsift-ingest", POSTS, {0: 3})
    kafka.send(SEEDS, b"{", b"odd")
    with open_desk() as desk:
        until(lambda: desk.mirrors.control.refused)
        strip = call(desk, events.health)
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
    (problem,) = call(desk, events.health)["problems"]
    assert "nobody listens there" in problem["text"]
    desk.stop()


def test_a_missing_right_is_not_taken_for_a_broker_that_is_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise GroupAuthorizationFailedError("refused")

    cluster = SimpleNamespace(partitions=lambda _topic: [0])
    for name in ("connected", "admin_client"):
        monkeypatch.setattr(health, name, lambda _config: nullcontext(cluster))
    monkeypatch.setattr(health, "read_offsets", refuse)
    mirrors = SimpleNamespace(control=parse_control_state({}), unread=dict)
    config = Config()
    (problem,) = HealthMonitor(config, mirrors).summary()["problems"]  # type: ignore[arg-type]
    assert problem["text"].startswith(f"{config.kafka.group}: cannot be read: ")
    assert problem["text"].endswith("grant Describe on it")
