"""What `newsift status` reads out of a worker's metrics, and out of what else may answer."""

import asyncio
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import nan

import pytest

from newsift.operations.workers import TOO_FEW, parse_drift, read_drift, web_address
from worker.config import WebConfig
from worker.match.drift import Drifting
from worker.metrics.registry import Metrics
from worker.metrics.web import Health, Web


def served(metrics: Metrics) -> str | None:
    """What is said of a worker that serves these."""

    async def run() -> str | None:
        web = Web(WebConfig(port=0), metrics, Health)
        await web.start()
        try:
            return await asyncio.to_thread(read_drift, [f"127.0.0.1:{web.port}"])
        finally:
            await web.stop()

    return asyncio.run(run())


def test_a_worker_is_heard() -> None:
    metrics = Metrics()
    assert served(metrics) == TOO_FEW
    metrics.drift([Drifting("fire\n\x1b", 'a "b"', 31.4, 0.1), Drifting("fire", "", nan, 0.2)])
    assert str(served(metrics)).startswith('seed a "b" passes 31 times the promised rate')


@pytest.mark.parametrize("page", [b"", b"hello", b"<html>", b"\xff", b"a{b=\n", b"newsift_x 1"])
def test_what_is_no_worker_is_none(page: bytes) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(page)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        address = f"127.0.0.1:{server.server_port}"
        assert read_drift([address]) is None
        thread.join()
    assert read_drift([address]) is None  # nobody at all
    assert read_drift([]) is None


def test_rows_are_put_together_by_seed() -> None:
    metrics = Metrics()
    rows = [Drifting("fire", "f", 2.0, 0.25), Drifting("fire", "", 1.5, 0.5)]
    metrics.drift(rows)
    assert parse_drift(metrics.render().decode()) == rows


@pytest.mark.parametrize(("host", "port", "address"), [
    ("127.0.0.1", None, "127.0.0.1:6066"), ("0.0.0.0", 7000, "127.0.0.1:7000"),
    ("::", 7000, "[::1]:7000"), ("worker-1", None, "worker-1:6066"),
])  # fmt: skip
def test_where_the_web_server_is(host: str, port: int | None, address: str) -> None:
    assert web_address(WebConfig(host=host, port=port)) == address
