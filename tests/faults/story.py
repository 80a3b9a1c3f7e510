"""Stories consist of posts, workers and crashes, and end with a check of all records."""

import itertools
import json
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from kafka import TopicPartition
from kafka.errors import RetriableError

from tests.broker.clients import admin, create, producer, read_to_end, until, write_keyed
from tests.broker.server import Server
from tests.faults.checker import History, LetterSeen, MatchSeen, Named, Sent, Verdict, check
from tests.faults.expected_matches import Oracle, SeedWanted, post_texts
from tests.faults.messages import MAX_BYTES
from tests.faults.process import Worker

PARTITIONS = 3
BATCH_POSTS = 8
IN_FLIGHT = 3
DRAINS_WITHIN_S = 60.0
ONE_CRASH = BATCH_POSTS * IN_FLIGHT  # so many posts may be under way, or done and not committed

Message = tuple[bytes | None, Sent]  # the value, and what must come of it
NOWHERE = (-1, -1)  # until the message is written

_numbers = itertools.count()


class Story:
    def __init__(self, server: Server, folder: Path, oracle: Oracle, *, fork: bool = True) -> None:
        self.server, self.folder, self.oracle, self.brief = server, folder, oracle, fork
        self.name = f"{folder.name}-{next(_numbers)}"
        self.group = f"{self.name}-group"
        self.workers: list[Worker] = []
        self.sent: list[Sent] = []
        self.allowed_duplicates = 0
        self.events = 0  # faults that came from outside the workers
        self.drained_s = 0.0  # so long took the last wait until all was committed
        self.seeds: dict[str, SeedWanted] = {}
        self.before: dict[str, SeedWanted] | None = None  # that may still be in force
        self.topics = {
            kind: f"{self.name}-{kind}" for kind in ("posts", "seeds", "matches", "rejected")
        }
        self._texts = itertools.cycle(post_texts())
        self._ids = itertools.count()
        self._messages: list[Message] = []
        create(server.address, self.topics["posts"], PARTITIONS)
        create(server.address, self.topics["seeds"], 1, cleanup_policy="compact")
        self.publish(*oracle.seeds)

    def settings(self) -> dict[str, Any]:
        return {
            "kafka": {
                "bootstrap_servers": self.server.address, "group": self.group,
                "session_timeout_s": 2,
            },
            "topics": self.topics | {"partitions": PARTITIONS},
            "model": {"name": str(self.oracle.model), "device": "cpu", "threads": 1},
            "limits": {"post_bytes": MAX_BYTES},
            "stream": {
                "batch_posts": BATCH_POSTS, "in_flight": IN_FLIGHT, "produce_deadline_s": 1,
            },
            "web": {"port": 0},
        }  # fmt: skip

    def publish(self, *seeds: SeedWanted) -> None:
        self.seeds |= {seed.id: seed for seed in seeds}
        self.control(*((seed.id.encode(), seed.value) for seed in seeds))

    def withdraw(self, seed: SeedWanted, value: bytes | None = None) -> None:
        del self.seeds[seed.id]
        self.control((seed.id.encode(), value))

    def control(self, *records: tuple[bytes | None, bytes | None]) -> None:
        write_keyed(self.server.address, self.topics["seeds"], records)

    def posts(self, count: int, *, too_large: bool = False, filler: int = 0) -> None:
        """Write good posts, over all partitions; their matches may be too large to send."""
        texts = itertools.islice(self._texts, count)
        self._write([self._message(text, too_large=too_large, filler=filler) for text in texts])

    def post(self, text: str, reason: str | None = None) -> None:
        self._write([self._message(text, reason)])

    def message(self, value: bytes | None, reason: str) -> None:
        """Write a message that must become a dead letter."""
        stored = None if reason == "limits.post_bytes" else value
        self._write([(value, Sent(NOWHERE, stored, reason=reason))])

    def again(self) -> None:
        self._write(list(self._messages))

    def _message(
        self, text: str, reason: str | None = None, *, too_large: bool = False, filler: int = 0
    ) -> Message:
        post_id = f"p{next(self._ids)}"
        value = json.dumps({"id": post_id, "text": text, "filler": "x" * filler}).encode()
        if reason is not None:
            return value, Sent(NOWHERE, value, reason=reason)
        match_ids = self.oracle.match_ids(post_id, text, self.seeds.values())
        if too_large and match_ids:
            return value, Sent(NOWHERE, None, reason="record_too_large")
        instead = None
        if self.before is not None:
            instead = self.oracle.match_ids(post_id, text, self.before.values())
        return value, Sent(NOWHERE, value, match_ids, instead=instead)

    def _write(self, messages: list[Message]) -> None:
        self._messages += messages
        numbers = itertools.count(len(self.sent))
        with producer(self.server.address, max_request_size=2**23) as client:
            waiting = [
                client.send(self.topics["posts"], value, key=b"any", partition=n % PARTITIONS)
                for n, (value, _) in zip(numbers, messages, strict=False)
            ]
            for (_, expected), each in zip(messages, waiting, strict=True):
                record = each.get(timeout=DRAINS_WITHIN_S)
                place = (record.partition, record.offset)
                self.sent.append(replace(expected, place=place))

    def worker(self, config: dict[str, Any] | str | None = None, **fault: Any) -> Worker:
        folder = self.folder / f"worker-{len(self.workers)}"
        text = config if isinstance(config, str) else yaml.safe_dump(config or self.settings())
        file = folder.with_suffix(".yaml")
        file.write_text(text, "utf-8")
        self.workers.append(Worker(folder, file, fault or None, fork=self.brief))
        return self.workers[-1]

    def dies(self, boundary: str, nth: int = 1) -> None:
        worker = self.worker(at=boundary, nth=nth, do="kill")
        assert worker.ended() == -9, worker.output
        assert worker.proofs == [f"kill at {boundary}"]
        self.crashed()

    def crashed(self) -> None:
        """A worker has died: what is committed must be out, what was under way may repeat."""
        self.allowed_duplicates += ONE_CRASH
        self.promises_kept()

    def promises_kept(self) -> None:
        """Of every message whose offset is committed, all that it must come to is there."""
        verdict = check(self.history(), self.allowed_duplicates, drained=False)
        assert verdict.complaints == (), self.report(verdict)

    def drained(self) -> None:
        def done() -> bool:
            living = [worker for worker in self.workers if worker.alive()]
            assert living, f"no worker is left:\n{self.workers[-1].output}"
            return self.committed() == self.ends()

        began = time.monotonic()
        try:
            until(done, DRAINS_WITHIN_S)
        except AssertionError as error:
            state = f"{error}: committed {self.committed()} of {self.ends()}"
            logs = "".join(worker.output[-2000:] for worker in self.workers)
            raise AssertionError(f"{state}\n{logs}") from None
        self.drained_s = time.monotonic() - began

    def nothing_lost(self) -> Verdict:
        self.drained()
        verdict = check(self.history(), self.allowed_duplicates)
        assert verdict.complaints == (), self.report(verdict)
        return verdict

    def until(self, holds: Callable[[], Any]) -> None:
        until(holds, DRAINS_WITHIN_S)

    def ends(self) -> dict[int, int]:
        ends: dict[int, int] = {}
        for each in self.sent:
            ends[each.place[0]] = max(ends.get(each.place[0], 0), each.place[1] + 1)
        return ends

    def places(self) -> list[TopicPartition]:
        return [TopicPartition(self.topics["posts"], number) for number in self.ends()]

    def committed(self) -> dict[int, int]:
        result: dict[Any, Any] = {}
        until(lambda: self._read_offsets(result), DRAINS_WITHIN_S)
        return {
            place.partition: row.offset
            for place, row in result.items()
            if place.topic == self.topics["posts"]
        }

    def _read_offsets(self, offsets: dict[Any, Any]) -> bool:
        with admin(self.server.address) as client, suppress(RetriableError):
            offsets |= client.list_group_offsets({self.group: None})[self.group]
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

    def report(self, verdict: Verdict) -> str:
        logs = "".join(f"\n--- {w.log.parent.name}\n{w.output[-2000:]}" for w in self.workers)
        return "\n".join(verdict.complaints[:20]) + logs

    def close(self) -> None:
        for worker in self.workers:
            worker.kill()


def match_seen(record: Any) -> MatchSeen:
    row = json.loads(record.value)
    place = (row["source"]["partition"], row["source"]["offset"])
    named = tuple(Named(m["match_id"], m["score"], m["threshold"]) for m in row["matches"])
    for hint in ("processed_at", "group", "new"):  # of when, and of what came before
        row.pop(hint, None)
    return MatchSeen(place, named, row["matched"], json.dumps(row, sort_keys=True))


def letter_seen(record: Any) -> LetterSeen:
    headers = {name: value.decode() for name, value in record.headers}
    _, partition, offset = headers["source"].rsplit("-", 2)
    return LetterSeen((int(partition), int(offset)), headers["reason"], record.value)
