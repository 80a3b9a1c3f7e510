"""A flood of labels leaves those of others in place."""

import json
import os
from pathlib import Path

import pytest

from newsift.statistics.labels import ROOM, Label
from tests.broker.clients import create, producer
from tests.broker.server import Server
from tests.worker.fake import Command
from worker.posts.outcome import Post

HONEST = 300  # labels of each person
LONG = 50_000  # characters of a flood's post; a batch of them packs to some hundred bytes


def label(by: str, name: str, text: str = "A fire on a ferry") -> Label:
    post = Post(name, "x", text)
    return Label("on", "ferry", post, by, "2026-11-22T10:00:00Z", "certify", 0.5)


@pytest.fixture
def topic(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    name = f"labels-{os.getpid()}-{tmp_path.name}"
    create(server.address, name, cleanup_policy="compact")
    monkeypatch.setenv("NEWSIFT_KAFKA", server.address)
    monkeypatch.setenv("NEWSIFT_TOPICS__LABELS", name)
    return name


def publish(server: Server, topic: str, labels: list[Label]) -> None:
    packed = {"compression_type": "gzip", "linger_ms": 50, "batch_size": 900_000}
    with producer(server.address, **packed, max_request_size=2**24) as client:
        for each in labels:
            client.send(topic, each.value, key=each.key, partition=0)


def test_a_flood_of_labels_leaves_those_of_others_in_place(
    server: Server, topic: str, newsift: Command
) -> None:
    """Some 50 KB on the wire silenced everybody who came later, and nobody was told."""
    publish(server, topic, [label("ann", str(n)) for n in range(HONEST)])
    flood = [label("eve", f"flood {n}", "x" * LONG) for n in range(ROOM // LONG + 200)]
    publish(server, topic, flood)
    publish(server, topic, [label("bob", str(n)) for n in range(HONEST)])
    done = newsift("labels", "list", "--json")
    assert done.code == 0, done.err
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert {row["by"]: row["on"] for row in rows if row.get("by") in ("ann", "bob")} == {
        "ann": HONEST, "bob": HONEST,
    }  # fmt: skip
    assert "labels are left out" in done.err
    exported = newsift("labels", "export", "--event", "other")
    assert (exported.code, "labels are left out" in exported.err) == (0, True)
