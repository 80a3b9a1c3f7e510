"""The words that stories are told in: posts, workers, deaths, and the check at the end."""

import itertools
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from kafka.errors import RetriableError

from tests.broker.clients import admin, create, producer, read_to_end, until, write
from tests.broker.server import Server
from tests.faults.checker import History, LetterSeen, MatchSeen, Named, Sent, Verdict, check
from tests.faults.expected import Oracle, post_texts
from tests.faults.messages import MAX_BYTES
from tests.faults.process import Worker

PARTITIONS = 3
BATCH_POSTS = 8
IN_FLIGHT = 3
DRAINS_WITHIN_S = 60.0
ONE_CRASH = BATCH_POSTS * IN_FLIGHT  # so many posts may be under way, or done and not committed

Tell = Callable[["Story"], None]

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Row:
    """A message to write, what it must come to, and the value its dead letter must have."""

    value: bytes | None
    match_ids: frozenset[str]
    reason: str | None
    kept: bytes | None


class Story:
    """One run of workers over topics of its own, with all that was written remembered."""

    def __init__(self, server: Server, folder: Path, oracle: Oracle, *, fork: bool = True) -> None:
        self.server, self.folder, self.oracle, self._fork = server, folder, oracle, fork
        self.name = f"{folder.name}-{next(_numbers)}"
        self.workers: list[Worker] = []
        self.sent: list[Sent] = []
        self.allowed_duplicates = 0
        self.events = 0  # faults that came from outside the workers
        self.topics = {
            kind: f"{self.name}-{kind}" for kind in ("posts", "seeds", "matches", "rejected")
        }
        self._texts = itertools.cycle(post_texts())
        self._ids = itertools.count()
        self._config = folder / "config.yaml"
        self._config.write_text(yaml.safe_dump(self._settings()), "utf-8")
        create(server.address, self.topics["posts"], PARTITIONS)
        create(server.address, self.topics["seeds"], 1, cleanup_policy="compact")
        for seed in oracle.seeds:
            write(server.address, self.topics["seeds"], [seed.value], key=seed.id.encode())

    def _settings(self) -> dict[str, Any]:
        return {
            "kafka": {
                "bootstrap_servers": self.server.address, "group": f"{self.name}-group",
                "session_timeout_s": 2,
            },
            "topics": self.topics | {"partitions": PARTITIONS},
            "model": {"name": str(self.oracle.model), "device": "cpu", "threads": 1},
            "limits": {"post_bytes": MAX_BYTES},
            "stream": {
                "batch_posts": BATCH_POSTS, "in_flight": IN_FLIGHT, "produce_deadline_s": 1,
            },
            "cache": {"folder": str(self.folder / "cache")},
            "web": {"port": 0},
        }  # fmt: skip

    def posts(self, count: int, *, too_large: bool = False) -> None:
        """Write so many good posts, over all partitions; their matches may be too large to send."""
        self._write([self._row(next(self._texts), too_large=too_large) for _ in range(count)])

    def post(self, text: str, reason: str | None = None) -> None:
        """Write one post, which matches what it matches, or must be a dead letter."""
        self._write([self._row(text, reason)])

    def message(self, value: bytes | None, reason: str) -> None:
        """Write any bytes as a message that must become a dead letter."""
        kept = None if reason == "limits.post_bytes" else value
        self._write([Row(value, frozenset(), reason, kept)])

    def _row(self, text: str, reason: str | None = None, *, too_large: bool = False) -> "Row":
        post_id = f"p{next(self._ids)}"
        value = json.dumps({"id": post_id, "text": text}).encode()
        match_ids = self.oracle.match_ids(post_id, text) if reason is None else frozenset()
        if too_large and match_ids:
            return Row(value, frozenset(), "record_too_large", None)
        return Row(value, match_ids, reason, value)

    def _write(self, rows: "list[Row]") -> None:
        places = itertools.count(len(self.sent))
        with producer(self.server.address, max_request_size=2**23) as client:
            waiting = [
                client.send(self.topics["posts"], row.value, key=b"any", partition=n % PARTITIONS)
                for n, row in zip(places, rows, strict=False)
            ]
            for row, each in zip(rows, waiting, strict=True):
                told = each.get(timeout=DRAINS_WITHIN_S)
                place = (told.partition, told.offset)
                self.sent.append(Sent(place, row.kept, row.match_ids, row.reason))

    def worker(self, **fault: Any) -> Worker:
        """Start a worker, perhaps with a fault scripted into it; do not wait for it."""
        folder = self.folder / f"worker-{len(self.workers)}"
        self.workers.append(Worker(folder, self._config, fault or None, fork=self._fork))
        return self.workers[-1]

    def dies(self, boundary: str, nth: int = 1) -> None:
        """A worker starts, and is killed as it reaches a boundary for the nth time."""
        worker = self.worker(at=boundary, nth=nth, do="kill")
        assert worker.ended() == -9, worker.said
        assert worker.proofs == [f"kill at {boundary}"]
        self.crashed()

    def crashed(self) -> None:
        """A worker has died: what is committed must be out, what was under way may repeat."""
        self.allowed_duplicates += ONE_CRASH
        self.promises_kept()

    def promises_kept(self) -> None:
        """Of every message whose offset is committed, all that it must come to is there."""
        verdict = check(self.history(), self.allowed_duplicates, drained=False)
        assert verdict.complaints == (), self.told(verdict)

    def drained(self) -> None:
        """Wait until every post is committed; the workers that should be alive must be."""

        def done() -> bool:
            living = [worker for worker in self.workers if worker.alive()]
            assert living, f"no worker is left:\n{self.workers[-1].said}"
            return self.committed() == self.ends()

        try:
            until(done, DRAINS_WITHIN_S)
        except AssertionError as error:
            state = f"{error}: committed {self.committed()} of {self.ends()}"
            logs = "".join(worker.said[-2000:] for worker in self.workers)
            raise AssertionError(f"{state}\n{logs}") from None

    def nothing_lost(self) -> Verdict:
        """Wait until all is committed, and hold all that came out against all that went in."""
        self.drained()
        verdict = check(self.history(), self.allowed_duplicates)
        assert verdict.complaints == (), self.told(verdict)
        return verdict

    def until(self, holds: Callable[[], Any]) -> None:
        """Wait for something to hold."""
        until(holds, DRAINS_WITHIN_S)

    def ends(self) -> dict[int, int]:
        """How many messages were written to each partition."""
        ends: dict[int, int] = {}
        for each in self.sent:
            ends[each.place[0]] = max(ends.get(each.place[0], 0), each.place[1] + 1)
        return ends

    def committed(self) -> dict[int, int]:
        """The committed offset of each partition that has one."""
        found: dict[Any, Any] = {}
        until(lambda: self._told_offsets(found), DRAINS_WITHIN_S)
        return {
            place.partition: row.offset
            for place, row in found.items()
            if place.topic == self.topics["posts"]
        }

    def _told_offsets(self, found: dict[Any, Any]) -> bool:
        """Ask for the group's offsets; not yet, where the broker has just started."""
        group = f"{self.name}-group"
        with admin(self.server.address) as client, suppress(RetriableError):
            found |= client.list_group_offsets({group: None})[group]
            return True
        return False

    def history(self) -> History:
        """All that is known from outside: commits first, as outputs only ever grow."""
        committed = self.committed()
        return History(
            self.sent,
            [match_seen(r) for r in read_to_end(self.server.address, self.topics["matches"])],
            [letter_seen(r) for r in read_to_end(self.server.address, self.topics["rejected"])],
            committed,
        )

    def told(self, verdict: Verdict) -> str:
        """A verdict, with what the workers said."""
        logs = "".join(f"\n--- {w.log.parent.name}\n{w.said[-2000:]}" for w in self.workers)
        return "\n".join(verdict.complaints[:20]) + logs

    def close(self) -> None:
        """Leave no process."""
        for worker in self.workers:
            worker.kill()


def match_seen(record: Any) -> MatchSeen:
    """A match record as the checker wants it."""
    row = json.loads(record.value)
    place = (row["source"]["partition"], row["source"]["offset"])
    named = tuple(Named(m["match_id"], m["score"], m["threshold"]) for m in row["matches"])
    row.pop("processed_at")
    return MatchSeen(place, named, row["matched"], json.dumps(row, sort_keys=True))


def letter_seen(record: Any) -> LetterSeen:
    """A dead letter as the checker wants it."""
    headers = {name: value.decode() for name, value in record.headers}
    _, partition, offset = headers["source"].rsplit("-", 2)
    return LetterSeen((int(partition), int(offset)), headers["reason"], record.value)
