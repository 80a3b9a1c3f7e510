"""Matches to judge, and what stands on the topic of labels once somebody has."""

import json
from collections.abc import Sequence
from typing import Any

from newsift.statistics.labels import Label, read_label
from newsift.statistics.queues import is_certify_post
from tests.worker.command_topics import LABELS, Kafka
from worker.errors import BrokerError
from worker.match.near import draw_key
from worker.posts.outcome import Post

FIRST = "first"
EVIL = "\x1b]0;x\x07\x9b2J\u202e"


def match(name: str, score: float = 0.5, group: str = "", **changes: Any) -> bytes:
    own = {"match_id": name, "seed_id": "s", "seed_version": "v", "event": "storm", "title": "",
           "score": score, "threshold": 0.25, "why": [["rain", 0.4]]}  # fmt: skip
    post = {"id": name, "platform": "x", "text": f"rain {name}{EVIL}\nsecond line",
            "url": f"https://x.example/{name}", "created_at": "2026-03-01T10:00:00Z"}  # fmt: skip
    record = {"post": post, "matches": [own | changes], "matched": 1, "seed_set": "ab",
              "model": "cd", "processed_at": "2026-03-01T10:00:00.000Z", "new": True,
              "group": group or name, "source": {"topic": "t", "partition": 0, "offset": 0,
                                                 "timestamp": 0}}  # fmt: skip
    return json.dumps(record).encode()


def drawn(names: Sequence[str]) -> list[str]:
    """Those whose labels certify, in the order of their hashes."""
    return sorted((n for n in names if is_certify_post(("x", n))), key=lambda n: draw_key(("x", n)))


def first_label(name: str) -> Label:
    """Somebody's first label, on a match of this name: it begins a draw without a nonce."""
    post = Post(name, "x", "rain")
    return Label("on", "storm", post, FIRST, "2026-03-01T10:00:00Z", "certify", 0.5)


class LabelRecords:
    """A topic of labels, and what stands on it.

    It is `away` while nobody can write to it, and `full` while there is no room for a label.
    """

    def __init__(self, before: Sequence[Label] = ()) -> None:
        self._latest: dict[bytes, bytes | None] = {label.key: label.value for label in before}
        self.records: list[tuple[bytes, bytes | None]] = []
        self.away = self.full = False

    def publish(self, key: bytes, value: bytes | None) -> None:
        if self.away:
            raise BrokerError("the broker is away")
        self.records.append((key, value))
        self._latest[key] = None if self.full else value

    def event_labels(self, event: str) -> Sequence[Label]:
        read = (read_label(key, value) for key, value in self._latest.items())
        return [label for label in read if isinstance(label, Label) and label.event == event]


def begin(kafka: Kafka, name: str) -> None:
    made = first_label(name)
    kafka.send(LABELS, made.value, made.key)


def stored_labels(kafka: Kafka) -> list[Label]:
    read = [read_label(record.key, record.value) for record in kafka.records(LABELS)]
    assert all(isinstance(label, Label) for label in read)
    return [label for label in read if isinstance(label, Label)]


def labels(kafka: Kafka) -> list[tuple[str, str | None]]:
    """The records in order of all but who began: the post, and what was said of it."""
    result: list[tuple[str, str | None]] = []
    for record in kafka.records(LABELS):
        if json.loads(record.key)[3] == FIRST:
            continue
        label = read_label(record.key, record.value)
        assert label is None or isinstance(label, Label)
        result.append((json.loads(record.key)[2], label.label if label else None))
    return result
