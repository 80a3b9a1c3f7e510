"""The checker of a soak: hours of posts, each with one byte for how often it came out.

The posts repeat some texts, and each has a number. What a text must come to is computed once for
each set of seeds that the control topic states.
"""

import json
import re
import threading
import time
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from kafka import TopicPartition
from kafka.errors import KafkaError
from numpy.typing import NDArray

from tests.broker.clients import consumer, polled
from tests.faults.expected import digest

REASON = "bad_json"
EXAMPLES = 20  # of what is wrong
NUMBER = re.compile(rb'"id":"(\d+)"')

Met = frozenset[tuple[str, str]]  # ids and versions of the seeds that a text matches


class Texts(NamedTuple):
    """The texts in their order, and what each must come to."""

    texts: Sequence[str]
    unreadable: frozenset[int]  # the texts that are part of a message that is not JSON
    matches: MutableMapping[str, Sequence[Met]]  # by seed_set
    model: str  # its digest

    @property
    def must(self) -> NDArray[np.bool_]:
        """Of each text, whether something comes out of it under every set of seeds."""
        result = np.array([all(row) for row in zip(*self.matches.values(), strict=True)])
        result[list(self.unreadable)] = True
        return result


class Verdict(NamedTuple):
    expected: int  # posts that must come out
    missing: int
    twice: int
    wrong: int


class Tally:
    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._counts = bytearray()  # by number of the post
        self.matches = self.letters = self.wrong = 0
        self._examples: list[str] = []
        self._early: list[Mapping[str, Any]] = []  # matches of seeds that are not expected yet
        self._lock = threading.Lock()

    @property
    def examples(self) -> list[str]:
        """Of what is wrong."""
        early = {record["seed_set"] for record in self._early}
        return [*self._examples, *(f"no seeds are known as {name}" for name in sorted(early))]

    def expect(self, matches: Mapping[str, Sequence[Met]]) -> None:
        """What the texts come to with more sets of seeds; a match may have been read before."""
        with self._lock:
            self._texts.matches.update(matches)
            early, self._early = self._early, []
            for record in early:
                self._check(record)

    def match(self, record: Mapping[str, Any]) -> None:
        with self._lock:
            self.matches += 1
            self._check(record)

    def _check(self, record: Mapping[str, Any]) -> None:
        if record["seed_set"] not in self._texts.matches:
            self._early.append(record)
            return
        post, texts = record["post"], self._texts
        number = int(post["id"])
        row = number % len(texts.texts)
        text, met = texts.texts[row], {(m["seed_id"], m["seed_version"]) for m in record["matches"]}
        named = ["plain", post["id"], text]
        if row in texts.unreadable or not met or met != texts.matches[record["seed_set"]][row]:
            self._is_wrong(f"post {number} meets {sorted(met)} in {record['seed_set']}")
        elif post["text"] != text or not record["matched"] == len(record["matches"]) == len(met):
            self._is_wrong(f"post {number}: another text or count of matches")
        elif any(m["match_id"] != match_id(named, m, texts.model) for m in record["matches"]):
            self._is_wrong(f"post {number} has a wrong match_id")
        self._count(number)

    def letter(self, value: bytes | None, reason: str) -> None:
        number = NUMBER.search(value or b"")
        with self._lock:
            self.letters += 1
            if number is None or not self._is_unreadable(int(number[1])):
                self._is_wrong(f"a dead letter of a post: {reason}, {value!r}")
                return
            if reason != REASON:
                self._is_wrong(f"the dead letter of {int(number[1])} has the reason {reason}")
            self._count(int(number[1]))

    def _is_unreadable(self, number: int) -> bool:
        return number % len(self._texts.texts) in self._texts.unreadable

    def verdict(self, sent: int) -> Verdict:
        with self._lock:
            counts = np.zeros(max(sent, len(self._counts)), np.uint8)
            counts[: len(self._counts)] = np.frombuffer(self._counts, np.uint8)
            must = np.resize(self._texts.must, sent)
        unwritten = int(np.count_nonzero(counts[sent:]))
        return Verdict(
            int(must.sum()),
            int(np.count_nonzero(must & (counts[:sent] == 0))),
            int(np.maximum(counts, 1).sum()) - len(counts),
            self.wrong + unwritten + len(self._early),
        )

    def _count(self, number: int) -> None:
        if number >= len(self._counts):
            self._counts.extend(bytes(number + 2**20 - len(self._counts)))
        self._counts[number] = min(self._counts[number] + 1, 255)

    def _is_wrong(self, what: str) -> None:
        self.wrong += 1
        if len(self._examples) < EXAMPLES:
            self._examples.append(what)


def match_id(named: list[str], match: Mapping[str, str], model: str) -> str:
    return digest([*named, match["seed_id"], match["seed_version"], model])[:32]


class Reader(threading.Thread):
    """Reads matches and dead letters as they come, and tells how long a partition had none."""

    def __init__(self, address: str, matches: str, rejected: str, partitions: int, tally: Tally):
        super().__init__(daemon=True)
        self._address, self._matches, self._tally = address, matches, tally
        self._letters = [TopicPartition(rejected, p) for p in range(partitions)]
        self._parts = [TopicPartition(matches, p) for p in range(partitions)] + self._letters
        self._last = dict.fromkeys(range(partitions), time.monotonic())
        self._pause = 0.0
        self._lock = threading.Lock()
        self._over, self._renewed = threading.Event(), threading.Event()

    def run(self) -> None:
        with consumer(self._address, auto_offset_reset="none") as client:
            client.assign(self._parts)
            for part in self._parts:
                client.seek(part, 0)
            while True:
                if self._renewed.is_set():
                    self._renewed.clear()
                    for part in self._letters:
                        client.seek(part, 0)
                over = self._over.is_set()
                rows = polled(client)
                for record in rows:
                    self._take(record)
                if over and not rows and self._is_at_end(client):
                    return

    def _is_at_end(self, client: Any) -> bool:
        try:
            ends = client.end_offsets(self._parts)
        except (KafkaError, KeyError):  # a partition has no leader yet
            return False
        return all(client.position(part) >= ends[part] for part in self._parts)

    def finish(self) -> None:
        """Read to the end of what is there now."""
        self._over.set()
        self.join()

    def restart_letters(self) -> None:
        """Read the topic of dead letters from its start, as it was deleted."""
        self._renewed.set()

    def pause(self) -> float:
        """The longest time without a match of some partition of posts since the last call."""
        with self._lock:
            result = max(self._pause, time.monotonic() - min(self._last.values()))
            self._pause = 0.0
        return result

    def _take(self, record: Any) -> None:
        if record.topic != self._matches:
            headers = {name: value.decode() for name, value in record.headers}
            self._tally.letter(record.value, headers["reason"])
            return
        row = json.loads(record.value)
        self._tally.match(row)
        now, partition = time.monotonic(), row["source"]["partition"]
        with self._lock:
            self._pause = max(self._pause, now - self._last[partition])
            self._last[partition] = now
