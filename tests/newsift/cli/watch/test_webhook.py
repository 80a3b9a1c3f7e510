"""A receiver of webhooks that answers as a test says, and the command that sends to it.

It speaks plain HTTP/1.1 by Python's own http.server; signatures are as Stripe documents its own,
https://docs.stripe.com/webhooks?verify=verify-manually, under another header's name.
"""

import hmac
import json
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import SHUT_RDWR
from threading import Event
from typing import Any

import pytest
from kafka import TopicPartition

from newsift.broker.server import running
from tests.broker.clients import consumer
from tests.newsift.cli.test_matches import record
from tests.worker.kafka_side import MATCHES, PARTITIONS, Kafka
from tests.worker.processes import Logged, logged
from tests.worker.web_side import Handler, Server, serving

PATIENCE_S = 60.0
SECRET = "a secret, é"
STALL, RESET, GARBAGE = 0, 1, 2  # what may come in the place of a status

Answer = Callable[["Post", int], int]  # what came, and how often its match came before


def accept(_post: "Post", _before: int) -> int:
    return 204


@dataclass(frozen=True)
class Post:
    headers: dict[str, str]
    body: bytes

    @property
    def name(self) -> str:
        return str(json.loads(self.body)["post"]["id"])

    @property
    def event(self) -> str:
        [event] = {str(match["event"]) for match in json.loads(self.body)["matches"]}
        return event

    @property
    def is_signed(self) -> bool:
        """Whether it is signed, by the words of docs/watch.md."""
        message = dict(part.split("=") for part in self.headers["Newsift-Signature"].split(","))
        text = f"{message['t']}.{self.body.decode()}"
        expected = hmac.digest(SECRET.encode(), text.encode(), "sha256").hex()
        return message["v1"] == expected and abs(time.time() - int(message["t"])) < 300


@dataclass
class Receiver:
    answer: Answer
    requests: list[Post] = field(default_factory=list)
    accepted: list[Post] = field(default_factory=list)
    port: int = 0
    over: Event = field(default_factory=Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in?from=newsift"

    def status(self, post: Post) -> int:
        name = "Newsift-Match"
        before = sum(other.headers[name] == post.headers[name] for other in self.requests)
        self.requests.append(post)
        status = self.answer(post, before)
        if 200 <= status < 300:
            self.accepted.append(post)
        return status

    def names(self) -> set[str]:
        return {post.name for post in self.accepted}


@contextmanager
def receiving(answer: Answer = accept) -> Iterator[Receiver]:
    receiver = Receiver(answer)

    class Inbox(Handler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            status = receiver.status(Post(dict(self.headers), body))
            if status == STALL:
                receiver.over.wait(PATIENCE_S)
            elif status == RESET:
                self.connection.shutdown(SHUT_RDWR)
            elif status == GARBAGE:
                self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: none\r\n" + b"x" * 2**17)
                self.close_connection = True
            else:
                self._say(status)

        def _say(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Set-Cookie", "a=b")
            if 300 <= status < 400:
                self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

    with serving(Server(Inbox)) as server:
        receiver.port = server.server_port
        try:
            yield receiver
        finally:
            receiver.over.set()


@contextmanager
def watching(folder: Path, *args: object, **env: str) -> Iterator[Logged]:
    env = os.environ | {"NEWSIFT_WEBHOOK_SECRET": SECRET} | env
    with logged(folder, "newsift", "watch", *args, env=env) as command:
        yield command


FIRE = "event of fire"
PAGE = Path(__file__).parents[4] / "docs" / "watch.md"
ALL = ("--since", "1h")


def fill(kafka: Kafka, names: Sequence[str], **seeds: float) -> None:
    kafka.fill(MATCHES, [record(name, "A fire", **seeds) for name in names])


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


def committed(kafka: Kafka, group: str = "newsift-watch") -> int:
    with consumer(kafka.address, group_id=group) as client:
        return client.committed(TopicPartition(MATCHES, 0)) or 0


def test_each_match_is_posted_once_signed_and_in_order(kafka: Kafka, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    fill(kafka, numbers(0, 300))
    with receiving() as receiver:
        args = ("--webhook", receiver.url, *ALL, "--secret-file", tmp_path / "secret")
        with watching(tmp_path, *args, NEWSIFT_WEBHOOK_SECRET="another") as command:
            command.until(lambda: len(receiver.accepted) == 300)
            command.until(lambda: committed(kafka) == 300)
            assert command.leave() == 0
    assert SECRET not in command.output
    assert [post.name for post in receiver.requests] == numbers(0, 300)
    assert all(post.is_signed for post in receiver.requests)
    first = receiver.requests[0]
    assert first.headers["Content-Type"] == "application/json"
    assert first.headers["Newsift-Match"] == "0-ferry"
    assert first.headers["Newsift-Schema"] == "newsift.match/1"
    assert "Cookie" not in receiver.requests[-1].headers
    assert not Post(first.headers, first.body + b" ").is_signed
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(code, names)
    check = names["is_from_newsift"]
    assert check(SECRET, first.headers["Newsift-Signature"], first.body)
    assert not check("another", first.headers["Newsift-Signature"], first.body)


@contextmanager
def delivering(
    folder: Path, answer: Answer = accept, *args: object
) -> Iterator[tuple[Receiver, Logged]]:
    """A receiver that answers like this, and the command that posts to it."""
    with (
        receiving(answer) as receiver,
        watching(folder, "--webhook", receiver.url, *(args or ALL)) as command,
    ):
        yield receiver, command


@pytest.mark.slow
def test_sends_again_failures_and_skips_refused_matches(kafka: Kafka, tmp_path: Path) -> None:
    failures = {"0": 500, "1": 429, "2": RESET, "3": 404, "4": 302, "5": 408, "6": GARBAGE}
    refused = {"7": 400, "8": 409, "9": 413, "10": 415, "11": 422}

    def answer(post: Post, before: int) -> int:
        return refused.get(post.name, 200 if before else failures.get(post.name, 200))

    fill(kafka, numbers(0, 14))
    with delivering(tmp_path, answer) as (receiver, command):
        command.until(lambda: committed(kafka) == 14)
        assert command.leave() == 0
    assert [post.name for post in receiver.accepted] == [*numbers(0, 7), "12", "13"]
    assert len(receiver.requests) == 14 + 7
    assert "answers 409 to match 8-ferry: it is passed over" in command.output
    assert "/in" not in command.output  # of many receivers the path is the password


@pytest.mark.slow
def test_a_receiver_that_is_gone_ends_it_and_keeps_the_rest(kafka: Kafka, tmp_path: Path) -> None:
    fill(kafka, numbers(0, 5))
    with delivering(tmp_path, lambda post, _: 410 if post.name == "3" else 200) as (_, command):
        assert command.wait() == 2
    assert "answers 410" in command.output.splitlines()[-1]
    assert committed(kafka) == 3


@pytest.mark.slow
def test_a_stalled_receiver_does_not_hold_up_the_end(kafka: Kafka, tmp_path: Path) -> None:
    fill(kafka, ["1"])
    with delivering(tmp_path, lambda *_: STALL) as (receiver, command):
        command.until(lambda: receiver.requests)
        assert command.leave() == 0
    assert committed(kafka) == 0


@pytest.mark.slow
def test_a_new_group_begins_with_new_matches_and_filters(kafka: Kafka, tmp_path: Path) -> None:
    fill(kafka, ["before"])
    args = ("--event", FIRE, "--group", "other")
    with delivering(tmp_path, accept, *args) as (receiver, command):
        command.until(lambda: committed(kafka, "other") == 1)
        fill(kafka, ["1"], ferry=0.5)
        fill(kafka, ["2"], ferry=0.6, fire=0.5)
        kafka.fill(MATCHES, [b"{", record("3\r\nA: b", fire=0.5), record("4" * 101, fire=0.5)])
        fill(kafka, ["5"], fire=0.5)
        command.until(lambda: committed(kafka, "other") == 7)
        assert command.leave() == 0
    assert [(post.name, post.event) for post in receiver.accepted] == [("2", FIRE), ("5", FIRE)]
    assert command.output.count("is not a match: it is passed over") == 3


def fill_all(kafka: Kafka, start: int, end: int) -> None:
    for number in range(start, end):
        value = record(str(number), "A fire", **{"abc"[number % 3]: 0.5})
        kafka.send(MATCHES, value, partition=number // 3 % 3)


@pytest.mark.slow
def test_one_takes_over_all(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA__SESSION_TIMEOUT_S", "2")
    fill_all(kafka, 0, 30)
    with receiving() as receiver:
        args = ("--webhook", receiver.url, "--since", "1h")
        with watching(tmp_path, *args) as first, watching(tmp_path, *args) as second:
            second.until(lambda: "to read: " in second.output and len(receiver.names()) == 30)
            fill_all(kafka, 30, 60)
            first.process.send_signal(signal.SIGKILL)
            fill_all(kafka, 60, 90)
            second.until(lambda: len(receiver.names()) == 90)
            assert second.leave() == 0
    assert sorted(map(int, receiver.names())) == list(range(90))
    assert all(json.loads(post.body)["matches"] for post in receiver.requests)


@pytest.mark.slow
def test_waits_for_an_absent_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running(auto_create=False) as broker:
        kafka = Kafka(broker)
        kafka.make(*PARTITIONS)
        monkeypatch.setenv("NEWSIFT_KAFKA", str(broker))
        monkeypatch.setenv("NEWSIFT_KAFKA__REQUEST_TIMEOUT_S", "4")
        fill_all(kafka, 0, 9)
        with delivering(tmp_path) as (receiver, command):
            command.until(lambda: len(receiver.accepted) == 9)
            broker.stop()
            command.until(lambda: "the broker does not answer: waiting" in command.output)
            broker.start()
            fill_all(kafka, 9, 18)
            command.until(lambda: len(receiver.names()) == 18)
            broker.stop()
            assert command.leave() == 0
            assert "Traceback" not in command.output
            broker.start()
    assert sorted(map(int, receiver.names())) == list(range(18))
