"""A receiver of webhooks that answers as a test says, and the command that sends to it.

It speaks plain HTTP/1.1 by Python's own http.server; signatures are as Stripe documents its own,
https://docs.stripe.com/webhooks?verify=verify-manually, under another header's name.
"""

import hmac
import json
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from socket import SHUT_RDWR
from threading import Event, Lock

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
    _counts: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/in?from=newsift"

    def status(self, post: Post) -> int:
        with self._lock:
            name = post.headers["Newsift-Match"]
            before, self._counts[name] = self._counts[name], self._counts[name] + 1
            self.requests.append(post)
        status = self.answer(post, before)
        if 200 <= status < 300:
            with self._lock:
                self.accepted.append(post)
        return status

    def names(self, event: str | None = None) -> list[str]:
        mine = (post for post in self.accepted if event in (None, post.event))
        return list(dict.fromkeys(post.name for post in mine))


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
