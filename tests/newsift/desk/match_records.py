"""Match records and labels as workers and people write them."""

import json
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

from tests.broker.clients import producer
from tests.worker.command_topics import LABELS, MATCHES, Kafka

NOON = 1_795_000_000_000 // 3_600_000 * 3_600_000  # a full hour, in milliseconds
HOUR = 3_600_000
HOSTILE = 'a</title><script>alert(1)</script>"&\u202e|<b>\x1b[31m'


def moment(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="milliseconds")[:-6] + "Z"


def topic(first: int = 0, end: int = 0) -> Any:
    """A cluster whose topic has one partition with these offsets."""
    return SimpleNamespace(
        beginnings=lambda _: {0: first}, offsets_at=lambda *_: {0: first}, ends=lambda _: {0: end}
    )


def within(at: int) -> int:
    """A moment of Kafka's, and noon where it is none."""
    return at if 0 < at < 2**50 else NOON


def record(
    post_id: str, score: float, at: int = NOON, event: str = "ferry", text: str = "the ferry",
    group: str | None = None, **more: Any,
) -> dict[str, Any]:  # fmt: skip
    match = {
        "match_id": f"{event}-{post_id}", "seed_id": "s1", "seed_version": "c" * 12,
        "event": event, "title": "T", "score": score, "threshold": 0.25, "why": [["ferry", 0.1]],
    }  # fmt: skip
    result = {
        "post": {"id": post_id, "platform": "plain", "text": text},
        "matches": [match | more.pop("match", {})],
        "matched": 1, "seed_set": "5" * 12, "model": "ab" * 32,
        "source": {"topic": "tweets", "partition": 0, "offset": 1, "timestamp": at},
        "processed_at": moment(within(at) + 5), **more,
    }  # fmt: skip
    return result if group is None else result | {"group": group, "new": True}


def publish(kafka: Kafka, records: Sequence[dict[str, Any]]) -> None:
    rows = sorted((within(each["source"]["timestamp"]), n) for n, each in enumerate(records))
    with producer(kafka.address) as client:
        for at, n in rows:
            value = json.dumps(records[n]).encode()
            client.send(MATCHES, value=value, timestamp_ms=at, partition=n % 3)


def label(
    kafka: Kafka, post_id: str, text: str, by: str = "anna", event: str = "ferry", **more: Any
) -> dict[str, Any]:
    result = {
        "label": text, "event": event, "post": {"id": post_id, "platform": "plain", "text": "t"},
        "score": 0.5, "seed_set": "5" * 12, "model": "ab" * 32, "drawn": "certify",
        "probability": 0.5, "by": by, "at": "2026-11-22T10:00:00Z", **more,
    }  # fmt: skip
    key = json.dumps([event, "plain", post_id, by], separators=(",", ":")).encode()
    kafka.send(LABELS, json.dumps(result).encode(), key, at=NOON)
    return result


def many(seed: int, count: int) -> list[dict[str, Any]]:
    """Records of random posts over a day and a half, some delivered twice, some copies."""
    dice = random.Random(seed)
    created = [
        record(f"p{n}", round(dice.uniform(0.25, 0.95), 4), NOON + dice.randrange(36 * HOUR),
               group=f"g{dice.randrange(count // 2)}")
        for n in range(count)
    ]  # fmt: skip
    return created + [created[dice.randrange(count)] for _ in range(count // 10)]


def firsts(records: Sequence[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The first record of each post, by its id."""
    result: dict[str, dict[str, Any]] = {}
    for each in records:
        result.setdefault(each["post"]["id"], each)
    return result
