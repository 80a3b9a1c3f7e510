"""The broker: the workers' group, how far each partition is behind, and how that has moved."""

import time
from collections import deque
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from threading import Lock
from typing import Any

from worker.actions.standing import Reading, Row, group, partitions, rates, reading
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.topics import administering, check_topics

REMEMBERED = 180  # looks: a quarter of an hour
STALE_S = 30.0  # after which a look tells no rate any more
GROWS_S = 60.0  # for so long a lag has to grow to be told of
SHOWN = 200  # partitions and members, those that are furthest behind first


@dataclass(frozen=True, slots=True)
class Group:
    """What the broker says of the workers at one moment."""

    state: str
    workers: list[Row]
    partitions: list[Row]
    lag: int
    rates: dict[str, float] | None  # None with the first look


@dataclass
class Broker:
    """Looks at the broker, and remembers the lag of the last minutes."""

    config: Config
    line: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _before: Reading | None = None
    _lock: Lock = field(default_factory=Lock)

    def look(self) -> Group:
        """Where everything stands now."""
        with connected(self.config) as cluster, administering(self.config) as admin:
            cluster.partitions(self.config.topics.posts)
            now = reading(cluster, admin, self.config)
            state, workers = group(admin, self.config)
        before, self._before = self._before, now
        rows = partitions(now, workers)
        lag = sum(now.lag.values())
        with self._lock:
            self.line.append((time.time(), lag))
        fresh = before is not None and now.at - before.at < STALE_S
        return Group(state, workers, rows, lag, rates(before, now) if before and fresh else None)

    def lags(self) -> list[tuple[float, int]]:
        """When it was looked, and what the lag was."""
        with self._lock:
            return list(self.line)

    def topics(self) -> list[Row]:
        """Where the topics are not as they should be."""
        labels = self.config.topics.labels, "topic"  # a missing one is made by the first label
        found = check_topics(self.config)
        return [asdict(each) for each in found if (each.topic, each.setting) != labels]


def grows(line: list[tuple[float, int]]) -> bool:
    """Whether the lag has never fallen in the last minute, and has risen."""
    if not line:
        return False
    recent = [each for each in line if line[-1][0] - each[0] <= GROWS_S]
    whole = line[-1][0] - line[0][0] >= GROWS_S
    never_less = all(b[1] >= a[1] for a, b in pairwise(recent))
    return whole and never_less and recent[-1][1] > recent[0][1]


def told(found: Group) -> dict[str, Any]:
    """The group as the page gets it: bounded, who is furthest behind first."""
    furthest = sorted(found.partitions, key=lambda row: (-row["lag"], row["partition"]))
    lags = {row["partition"]: row["lag"] for row in found.partitions}
    members = [
        row | {"lag": sum(lags.get(part, 0) for part in row["partitions"])} for row in found.workers
    ]
    return {
        "state": found.state, "lag": found.lag, "rates": found.rates,
        "members": members[:SHOWN], "all_members": len(members),
        "partitions": furthest[:SHOWN], "all_partitions": len(furthest),
    }  # fmt: skip
