"""A bound on the values that the dead letters of one record batch carry."""

from collections import OrderedDict
from threading import Lock
from typing import NamedTuple

MOST_BATCHES = 1024  # remembered; each is larger than the limit, so no more are under way at once


class RecordBatch(NamedTuple):
    """A record batch by its place in the topic of posts."""

    topic: str
    partition: int
    first: int
    last: int


class RejectedBytes:
    """What the dead letters of each record batch may still carry.

    Only a batch that unpacks to more than the limit can exceed it, so only these are remembered.
    Batches are noted by the thread that unpacks them and looked up by the event loop.
    """

    def __init__(self, limit: int) -> None:
        self._limit, self._epoch = limit, -1
        self._left: OrderedDict[RecordBatch, int] = OrderedDict()
        self._lock = Lock()

    def note(self, topic: str, partition: int, first: int, last: int, size: int) -> None:
        """Remember a batch of so many unpacked bytes; one that is fetched again keeps its count."""
        if size <= self._limit:
            return
        with self._lock:
            self._left.setdefault(RecordBatch(topic, partition, first, last), self._limit)
            if len(self._left) > MOST_BATCHES:
                self._left.popitem(last=False)

    def take(self, epoch: int, topic: str, partition: int, offset: int, size: int) -> bool:
        """Whether a dead letter may carry its value of `size` bytes; if so, they are used up.

        A new assignment of partitions counts from the start: posts that were not committed are read
        again.
        """
        with self._lock:
            if epoch != self._epoch:
                self._epoch, self._left = epoch, OrderedDict.fromkeys(self._left, self._limit)
            for batch, left in reversed(self._left.items()):
                if batch[:2] == (topic, partition) and batch.first <= offset <= batch.last:
                    if size <= left:
                        self._left[batch] = left - size
                    return size <= left
        return True
