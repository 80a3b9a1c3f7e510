"""Topics of one test on a broker, and the processes that use them."""

import itertools
import json
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import yaml

from tests.broker.clients import create, producer, read_to_end
from tests.broker.kafka import free_ports
from tests.broker.server import Server
from tests.faults.process import Worker
from tests.worker.command_processes import BIN, Logged, environment

NEWSIFT = BIN / "newsift"
PARTITIONS = 2
TOPICS = {
    "posts": {}, "seeds": {"cleanup_policy": "compact"}, "matches": {}, "rejected": {},
    "labels": {"cleanup_policy": "compact"},
}  # fmt: skip
_numbers = itertools.count()


class DeskProcess(Logged):
    @property
    def address(self) -> str:
        """With the token, once the desk has printed it."""
        self.wait_for(" (Ctrl-C ends it)")
        match = re.search(r"http://\S+:\d+/\S*", self.output)
        assert match
        return match[0]

    @property
    def url(self) -> str:
        return self.address.partition("?")[0]

    @property
    def login(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.address.partition('=')[2]}"}

    def call(self, path: str, **values: Any) -> Any:
        """What an endpoint answers to the page; with values it is an action."""
        body = json.dumps(values | {"by": "ada"}).encode() if values else None
        headers = self.login | {"Content-Type": "application/json"}
        with urlopen(Request(f"{self.url}api/{path}", body, headers)) as answer:
            return json.load(answer)["answer"]

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])


@contextmanager
def desks(folder: Path, **env: str) -> Iterator[Callable[..., DeskProcess]]:
    """Starts desks that end with the block."""
    with ExitStack() as stack:

        def start(*arguments: object, **more: str) -> DeskProcess:
            own = environment(**env | more)
            desk = DeskProcess.start(folder, "newsift", "desk", *arguments, env=own)
            stack.callback(desk.kill)
            return desk

        yield start


class Place:
    def __init__(self, server: Server, folder: Path, **settings: dict[str, Any]) -> None:
        self.server, self.folder = server, folder
        self._started = ExitStack()
        name = f"{folder.name}-{os.getpid()}-{next(_numbers)}"
        self.topics = {kind: f"{name}-{kind}" for kind in TOPICS}
        for kind, configs in TOPICS.items():
            alone = kind in ("seeds", "labels")
            create(server.address, self.topics[kind], 1 if alone else PARTITIONS, **configs)
        self.web_port = free_ports(1)[0]
        own: dict[str, dict[str, Any]] = {
            "kafka": {"bootstrap_servers": server.address, "group": f"{name}-group"},
            "topics": self.topics | {"partitions": PARTITIONS},
            "model": {"device": "cpu", "threads": 1},
            "web": {"port": self.web_port},
            "desk": {"workers": f"127.0.0.1:{self.web_port}"},
        }
        merged = {key: own.get(key, {}) | settings.get(key, {}) for key in own | settings}
        self.config = folder / "config.yaml"
        self.config.write_text(yaml.safe_dump(merged), "utf-8")

    @property
    def env(self) -> dict[str, str]:
        return environment(
            NEWSIFT_CONFIG=str(self.config), XDG_STATE_HOME=str(self.folder), OMP_NUM_THREADS="1"
        )

    def desk(self, *arguments: str, port: int = 0, **env: str) -> DeskProcess:
        own = self.env | env
        desk = DeskProcess.start(
            self.folder, "newsift", "desk", "--port", port, *arguments, env=own
        )
        self._started.callback(desk.kill)
        return desk

    def worker(self) -> Worker:
        started = Worker(self.folder / f"worker-{next(_numbers)}", self.config)
        self._started.callback(started.kill)
        started.ready()
        return started

    def newsift(self, *arguments: str, stdin: bytes = b"") -> bytes:
        done = subprocess.run(
            [NEWSIFT, *arguments], env=self.env, input=stdin, capture_output=True, check=False,
            cwd=self.folder, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode("utf-8", "replace")
        return done.stdout

    def send(self, kind: str, *rows: tuple[str | None, object]) -> None:
        """Put records into a topic: keys, and values as they are to stand in JSON."""
        with producer(self.server.address, max_request_size=2**24) as client:
            for key, value in rows:
                content = value if isinstance(value, bytes) else json.dumps(value).encode()
                client.send(self.topics[kind], content, key=key.encode() if key else None)

    def values(self, kind: str) -> list[Any]:
        rows = read_to_end(self.server.address, self.topics[kind])
        return [row.value and json.loads(row.value) for row in rows]

    def close(self) -> None:
        self._started.close()
