"""What a worker remembers of each of its partitions, over rebalances too.

A rebalance revokes all partitions and assigns most of them to the same workers again. What was
remembered of a partition still holds if no other worker has committed in it meanwhile.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf

from worker.match.groups import StoryGroups

UNKNOWN_OFFSET = -1  # No broker has answered.


@dataclass(slots=True, eq=False)
class Tenure:
    """What the worker remembers of a partition while it is assigned, and shortly after."""

    committed: int | None  # the offset at which another worker would go on
    groups: StoryGroups = field(default_factory=StoryGroups)
    revoked_at: float = inf  # while assigned; else by the event loop's clock


class Tenures:
    """The tenures of this worker's partitions, and of those that it lost a short time ago.

    Partitions change on the event loop; a thread looks them up.
    """

    def __init__(self, keep_s: float) -> None:
        """`keep_s` is how long a partition may be away."""
        self._keep_s = keep_s
        self._current: dict[int, Tenure] = {}
        self._away: dict[int, Tenure] = {}
        self.ready = asyncio.Event()  # cleared while it is undecided which tenures continue
        self.ready.set()

    def __getitem__(self, partition: int) -> Tenure:
        """An empty tenure for a partition that is gone; a batch of an older epoch may name it."""
        tenure = self._current.get(partition) or self._away.get(partition)
        return tenure or Tenure(None)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Commits the offsets of this worker."""
        for partition, offset in offsets.items():
            self[partition].committed = offset

    def revoke(self) -> None:
        """Tenures are kept while their partitions may come back."""
        loop = asyncio.get_running_loop()
        now = loop.time()
        for tenure in self._current.values():
            tenure.revoked_at = now
        self._away |= self._current
        self._current = {}
        self.ready.clear()
        loop.call_later(self._keep_s, self._expire, now)

    def assign(self, partitions: Iterable[int], committed: Mapping[int, int | None]) -> None:
        """A tenure continues if no other worker has committed in its partition."""
        for partition in partitions:
            offset = committed.get(partition, UNKNOWN_OFFSET)
            tenure = self._away.pop(partition, None)
            if tenure is None or tenure.committed != offset:
                tenure = Tenure(offset)
            tenure.revoked_at = inf
            self._current[partition] = tenure
        self.ready.set()

    def _expire(self, revoked_at: float) -> None:
        self._away = {
            partition: tenure
            for partition, tenure in self._away.items()
            if tenure.revoked_at > revoked_at
        }
