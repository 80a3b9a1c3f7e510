"""What came back, held against what was sent: precision, recall, latency, dead letters."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from worker.cli.demo.script import Message

Place = tuple[int, int]  # partition and offset


@dataclass(frozen=True, slots=True)
class Score:
    """How well one event's posts were found."""

    event: str
    wanted: int
    found: int
    right: int

    @property
    def precision(self) -> float | None:
        """The share of what was found that is about the event."""
        return self.right / self.found if self.found else None

    @property
    def recall(self) -> float | None:
        """The share of the event's posts that was found."""
        return self.right / self.wanted if self.wanted else None


@dataclass
class Tally:
    """The messages sent, by their place in the topic, and everything that was heard of them."""

    sent: dict[Place, Message] = field(default_factory=dict)
    matches: dict[str, tuple[Place, str]] = field(default_factory=dict)  # by match id
    rejected: dict[Place, str] = field(default_factory=dict)
    latencies: list[float] = field(default_factory=list)  # seconds
    seed_sets: list[str] = field(default_factory=list)

    def match(self, record: Mapping[str, Any], now: float) -> None:
        """Take in a match record that arrived at this time, in seconds since 1970."""
        source = record["source"]
        place = (source["partition"], source["offset"])
        for match in record["matches"]:
            self.matches[match["match_id"]] = (place, match["event"])
        self.latencies.append(now - source["timestamp"] / 1000)
        if record["seed_set"] not in self.seed_sets:
            self.seed_sets.append(record["seed_set"])

    def dead_letter(self, headers: Iterable[tuple[str, bytes]]) -> None:
        """Take in a dead letter."""
        named = {name: value.decode() for name, value in headers}
        _, partition, offset = named["source"].rsplit("-", 2)
        self.rejected[int(partition), int(offset)] = named["reason"]

    def scores(self, events: Iterable[str]) -> list[Score]:
        """Precision and recall by event: of the posts that were sent while its seed was there."""
        return [self._score(event) for event in events]

    def without_seed(self, event: str) -> tuple[int, int]:
        """How many posts on an event came while its seed was not there, and how many matched it."""
        places = {
            place for place, message in self.sent.items()
            if message.post and message.post.event == event and not message.live
        }  # fmt: skip
        return len(places), len({p for p, name in self.matches.values() if name == event} & places)

    def unexpected(self) -> list[str]:
        """Poison that was not rejected for its reason, and messages rejected without one."""
        wanted = {p: m.reason.value for p, m in self.sent.items() if m.reason is not None}
        places = sorted(wanted.keys() | self.rejected.keys())
        return [
            f"partition {p}, offset {o}: expected {wanted.get((p, o), 'no dead letter')}, "
            f"found {self.rejected.get((p, o), 'no dead letter')}"
            for p, o in places if wanted.get((p, o)) != self.rejected.get((p, o))
        ]  # fmt: skip

    def reasons(self) -> Counter[str]:
        """The dead letters by reason."""
        return Counter(self.rejected.values())

    def latency(self, share: float) -> float:
        """The latency that this share of the matches stayed below or at."""
        ordered = sorted(self.latencies)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0

    def _score(self, event: str) -> Score:
        about = {p for p, m in self.sent.items() if m.post and m.post.event == event and m.live}
        found = {place for place, name in self.matches.values() if name == event}
        return Score(event, len(about), len(found), len(about & found))


def read_match(value: bytes) -> dict[str, Any]:
    """A match record."""
    found: dict[str, Any] = json.loads(value)
    return found
