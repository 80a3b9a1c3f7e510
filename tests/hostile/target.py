"""The target of attacks: a running worker, its topics, and the records that it writes."""

import itertools
import json
import re
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import RetriableError

from tests.broker.clients import create, polled, until
from tests.broker.server import Server
from tests.faults.process import Worker

MIB = 2**20
PARTITIONS = 2
TOPICS: list[tuple[str, int, dict[str, str]]] = [
    ("posts", PARTITIONS, {"max_message_bytes": str(8 * MIB)}),  # more than the worker takes
    ("seeds", 1, {"cleanup_policy": "compact"}),
    ("matches", PARTITIONS, {}),
    ("rejected", PARTITIONS, {}),
]
ARTICLE = "storm flood river city the river flood in the city"

_numbers = itertools.count()


class Tail:
    def __init__(self, address: str, topic: str) -> None:
        self._client = KafkaConsumer(
            bootstrap_servers=address, auto_offset_reset="earliest", enable_auto_commit=False,
            fetch_max_wait_ms=50,
        )  # fmt: skip
        self._client.assign([TopicPartition(topic, n) for n in range(PARTITIONS)])
        self.records: list[Any] = []

    def look(self) -> list[Any]:
        self.records += polled(self._client, 20)
        return self.records

    def close(self) -> None:
        self._client.close(autocommit=False)


class Target:
    def __init__(
        self, server: Server, folder: Path, model: Path, *, fork: bool = True, **settings: Any
    ) -> None:
        self.server, self.folder = server, folder
        self.name = f"hostile-{next(_numbers)}"
        self.topics = {kind: f"{self.name}-{kind}" for kind, *_ in TOPICS}
        self.group = f"{self.name}-group"
        self.config = folder / "config.yaml"
        self.config.write_text(yaml.safe_dump(self._settings(model, settings)), "utf-8")
        for kind, partitions, configs in TOPICS:
            create(server.address, self.topics[kind], partitions, **configs)
        self._producer = KafkaProducer(
            bootstrap_servers=server.address, max_request_size=16 * MIB, linger_ms=0
        )
        self.admin = KafkaAdminClient(bootstrap_servers=server.address)
        self.write("seeds", [seed(ARTICLE)], key=b"flood")
        self.matches = Tail(server.address, self.topics["matches"])
        self.rejected = Tail(server.address, self.topics["rejected"])
        self.worker = Worker(folder / "worker", self.config, fork=fork)

    def _settings(self, model: Path, more: dict[str, Any]) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "kafka": {"bootstrap_servers": self.server.address, "group": self.group},
            "topics": self.topics | {"partitions": PARTITIONS},
            "model": {"name": str(model), "device": "cpu", "threads": 1},
            "matching": {"threshold": 0.4},
            "web": {"port": 0},
        }  # fmt: skip
        return {name: settings.get(name, {}) | more.get(name, {}) for name in settings | more}

    @property
    def pid(self) -> int:
        return self.worker.process.pid

    @property
    def port(self) -> int:
        self.worker.ready()
        result = re.search(r"http://127\.0\.0\.1:(\d+)/metrics", self.worker.output)
        assert result, self.worker.output
        return int(result[1])

    def write(
        self, kind: str, values: Iterable[bytes | None], key: bytes | None = b"any",
        partition: int = 0,
    ) -> None:  # fmt: skip
        self.keyed(kind, ((key, value) for value in values), partition)

    def keyed(
        self, kind: str, rows: Iterable[tuple[bytes | None, bytes | None]], partition: int = 0
    ) -> None:
        send = partial(self._producer.send, self.topics[kind], partition=partition)
        for sent in [send(value, key=key) for key, value in rows]:
            sent.get(timeout=60)

    def seeds(self) -> dict[str, Any]:
        page = self.worker.page("/seeds")
        assert page is not None
        return page

    def live(self, *names: str) -> bool:
        return set(names) <= {row["id"] for row in self.seeds()["live"]}

    def refused(self, name: str) -> str:
        return next((r["reason"] for r in self.seeds()["refused"] if r["id"] == name), "")

    def forget(self, *names: bytes) -> None:
        self.keyed("seeds", [(name, None) for name in names])
        gone = {name.decode() for name in names}

        def forgotten() -> bool:
            page = self.seeds()
            return not gone & {row["id"] for row in [*page["live"], *page["refused"]]}

        until(forgotten)

    def lag(self) -> int:
        places = [TopicPartition(self.topics["posts"], n) for n in range(PARTITIONS)]
        try:
            committed = self.admin.list_group_offsets({self.group: None})[self.group]
        except RetriableError:
            return -1  # the broker has just started
        ends = self.ends()
        done = {place: row.offset for place, row in committed.items()}
        return sum(ends[place] - max(0, done.get(place, 0)) for place in places)

    def ends(self) -> dict[TopicPartition, int]:
        places = [TopicPartition(self.topics["posts"], n) for n in range(PARTITIONS)]
        result: dict[TopicPartition, int] = self.matches._client.end_offsets(places)
        return result

    def close(self) -> None:
        self.worker.kill()
        self.matches.close()
        self.rejected.close()
        self._producer.close(timeout=5)
        self.admin.close()


def seed(text: str, **more: Any) -> bytes:
    return json.dumps({"text": text, **more}).encode()


def post(post_id: str, text: str, **more: Any) -> bytes:
    return json.dumps({"id": post_id, "text": text, **more}).encode()
