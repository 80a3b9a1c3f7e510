"""The posts of a soak: numbered, of some texts over and over, at a rate; some are deleted."""

import json
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tests.broker.clients import producer

PARTITIONS = 8
TICK_S = 0.05
Met = frozenset[tuple[str, str]]  # ids and versions of the seeds that a text matches
AUTHOR = "did:plc:soak"
REPEATS = 4  # a text comes so many times alike, then with another link
DELETED_STEP, DELETED_AFTER = 17, 20_000  # of so many posts one is deleted, so many posts later


def commit(operation: str, number: int, record: bytes = b"{}") -> bytes:
    """What Bluesky's Jetstream sends of a post with this number."""
    return (
        b'{"did":"%s","time_us":1790000000000000,"kind":"commit","commit":{"operation":"%s",'
        b'"collection":"app.bsky.feed.post","rkey":"%d","record":%s}}'
    ) % (AUTHOR.encode(), operation.encode(), number, record)


def number_of(post_id: str) -> int:
    """The number of the post with this id."""
    return int(post_id.rpartition("/")[2])


class Texts(NamedTuple):
    """The texts in their order, and what each must come to."""

    texts: Sequence[str]
    unreadable: frozenset[int]  # the texts that are part of a message that is not JSON
    matches: Mapping[str, Sequence[Met]]  # by seed_set
    model: str  # its digest

    def text(self, number: int) -> str:
        """Of the post with this number. Its link is new now and then, so that it is read again."""
        turn, row = divmod(number, len(self.texts))
        return f"{self.texts[row]} https://t.co/{turn // REPEATS}"

    def message(self, number: int) -> bytes:
        record = {"text": self.text(number), "createdAt": "2026-11-30T12:00:00Z"}
        value = commit("create", number, json.dumps(record).encode())
        return value[:-1] if number % len(self.texts) in self.unreadable else value

    @staticmethod
    def deleted(sent: int) -> int:
        """How many of so many posts are deleted by then: each `DELETED_STEP`th from 0 on."""
        return max(0, -((DELETED_AFTER - sent) // DELETED_STEP))


class Load(threading.Thread):
    """Writes posts at a rate, the same to each partition, each post once, and deletions of some."""

    def __init__(self, address: str, topic: str, rate: float, texts: Texts) -> None:
        super().__init__(daemon=True)
        self._address, self._topic, self._texts = address, topic, texts
        self._over = threading.Event()
        self.rate, self.sent = rate, 0

    def run(self) -> None:
        then, due = time.monotonic(), 0.0
        with producer(
            self._address, linger_ms=20, enable_idempotence=True, delivery_timeout_ms=600_000
        ) as client:
            while not self._over.wait(TICK_S):
                now = time.monotonic()
                due, then = due + self.rate * (now - then), now
                for number in range(self.sent, round(due)):
                    self._send(client, number, self._texts.message(number))
                    if (gone := number - DELETED_AFTER) >= 0 and gone % DELETED_STEP == 0:
                        self._send(client, gone, commit("delete", gone))
                    self.sent = number + 1

    def _send(self, client: Any, number: int, value: bytes) -> None:
        client.send(self._topic, value, partition=number % PARTITIONS)

    @property
    def messages(self) -> int:
        return self.sent + self._texts.deleted(self.sent)

    def stop(self) -> None:
        """Returns once the broker has all posts."""
        self.rate = 0
        self._over.set()
        if self.is_alive():
            self.join()
