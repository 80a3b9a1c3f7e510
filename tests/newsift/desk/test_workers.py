"""What a worker's web server reports; workers that are away, slow or odd."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread

import pytest

from newsift.desk.health import query_worker, query_workers
from tests.newsift.worker_web import worker_web
from worker.match.drift import Drifting
from worker.metrics.registry import Metrics
from worker.metrics.web import Health


@contextmanager
def answering(raw: bytes) -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            try:
                while True:
                    link, _ = listener.accept()
                    with link:
                        link.recv(2**16)
                        link.sendall(raw)
            except OSError:
                return

        thread = Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def full() -> Metrics:
    metrics = Metrics()
    metrics.model("ab" * 32, "kernel", 0.6)
    metrics.seeds(1, 2, 0, 0, 0, "5" * 12, 0.0)
    metrics.drift([Drifting("ferry", "", 12.0, 0.1)])
    metrics.offsets_lost(7)
    metrics.open_transaction("tweets", 0, 3, 5.0)
    metrics.open_transaction("tweets", 1, 3, 150.0)
    metrics.paused("output")
    return metrics


def test_a_worker_reports_its_state() -> None:
    with worker_web(Metrics(), Health("seeds are read")) as address:
        row = query_worker(address)
    assert (row["away"], row["ready"], row["reason"]) == ("", False, "seeds are read")
    with worker_web(full(), Health("")) as address:
        row = query_worker(address)
    assert row["drift"].startswith("event ferry passes 12 times")
    assert {name: row[name] for name in ("away", "ready", "reason", "model", "seed_set")} == {
        "away": "", "ready": True, "reason": "", "model": "ab" * 32, "seed_set": "5" * 12,
    }  # fmt: skip
    assert (row["offsets_lost"], row["open_transaction_s"], row["paused"]) == (7, 150, 1)
    assert row["version"]


def test_an_unreachable_worker_hides_no_other() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nobody = f"127.0.0.1:{closed.getsockname()[1]}"
    with worker_web(full(), Health("")) as address:
        row = query_workers([nobody, address])
    assert [row["address"] for row in row] == [nobody, address]
    assert "no worker answers" in row[0]["away"]
    assert row[1]["ready"]


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
    assert row["away"] or not row.get("model")


def test_a_worker_that_does_not_answer_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        row = query_worker(f"127.0.0.1:{silent.getsockname()[1]}", seconds=0.3)
    assert "no worker answers" in row["away"]
