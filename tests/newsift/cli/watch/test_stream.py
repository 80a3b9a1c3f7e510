"""The stream of matches as events: whoever comes back goes on where he left off.

Events are read as WHATWG HTML has them, https://html.spec.whatwg.org/multipage/server-sent-events.html
"""

import http.client
import json
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from newsift.cli.watch.stream import MAX_LISTENERS, parse_event_id
from tests.newsift.cli.test_matches import record
from tests.newsift.cli.watch.test_webhook import watching
from tests.worker.kafka_side import MATCHES, Kafka
from tests.worker.processes import Logged

PATIENCE_S = 60.0
Event = tuple[str, str]  # its id, and the post's


def port_of(command: Logged) -> int:
    command.wait_for("/metrics")
    (port,) = re.findall(r"http://127\.0\.0\.1:([0-9]+)/metrics", command.output)
    return int(port)


@contextmanager
def listening(port: int, **headers: str) -> Iterator[http.client.HTTPResponse]:
    link = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE_S)
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    link.request("GET", "/matches", headers=names)
    try:
        yield link.getresponse()
    finally:
        link.close()


def metrics(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as answer:
        return str(answer.read().decode())


def events(answer: http.client.HTTPResponse, many: int) -> list[Event]:
    """So many events, as a browser would take them in."""
    result: list[Event] = []
    fields: dict[str, str] = {}
    while len(result) < many:
        line = answer.readline().decode().rstrip("\n")
        assert answer.fp is not None, "it is over"
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
        elif not line and "data" in fields:
            assert fields["event"] == "match"
            result.append((fields["id"], json.loads(fields["data"])["post"]["id"]))
            fields = {}
    return result


def fill(kafka: Kafka, start: int, end: int) -> None:
    for number in range(start, end):
        kafka.send(MATCHES, record(str(number)), partition=number % 3)


def test_a_returning_listener_misses_and_repeats_nothing(kafka: Kafka, tmp_path: Path) -> None:
    fill(kafka, 0, 30)
    seen: list[Event] = []
    with watching(tmp_path, "--listen", 0, "--since", "1h") as command:
        port = port_of(command)
        with listening(port) as answer:
            assert answer.getheader("Content-Type") == "text/event-stream"
            seen += events(answer, 17)
    fill(kafka, 30, 40)
    with watching(tmp_path, "--listen", 0) as command:  # it was away, and so was the listener
        port = port_of(command)
        with listening(port, Last_Event_ID=seen[-1][0]) as answer:
            seen += events(answer, 23)
            fill(kafka, 40, 43)
            seen += events(answer, 3)
            assert "newsift_watch_streams 1.0" in metrics(port)
        with listening(port, Last_Event_ID="nonsense") as answer:
            assert answer.status == 400
        command.until(lambda: "newsift_watch_streams 0.0" in metrics(port))
        with listening(port, Host="newsroom.example") as answer:
            assert answer.status == 421
        assert command.leave() == 0
    assert sorted(int(name) for _, name in seen) == list(range(43))


def test_a_taken_port_is_refused_before_anything_is_announced(kafka: Kafka, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with watching(tmp_path, "--listen", port) as command:
            assert command.wait() == 2
    assert command.output == f"newsift: --listen: {port} is taken; free it, or give another\n"


@pytest.mark.slow
def test_the_number_of_listeners_is_bounded(kafka: Kafka, tmp_path: Path) -> None:
    with watching(tmp_path, "--listen", 0) as command:
        port, links = port_of(command), []
        for _ in range(MAX_LISTENERS):
            link = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
            link.sendall(b"GET /matches HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 " in link.recv(2**10)
            links.append(link)
        with listening(port) as answer:
            assert answer.status == 503
        for link in links:
            link.close()

        def has_room() -> bool:
            with listening(port) as answer:
                return answer.status == 200

        command.until(has_room)
        assert command.leave() == 0


@pytest.mark.parametrize(
    "message", ["a", "1", "1-", "1-2,", "-1-2", "1-2;3-4", "١-2", "1-2," * 9_999]
)
def test_refuses_a_forged_place(message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message[:20])):
        parse_event_id(message)
    assert parse_event_id("0-12,1-5") == {0: 12, 1: 5}
    assert parse_event_id("") is None
