"""A topic with one record per key: its state, and changes that are read back."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Generic

from worker.config import Config
from worker.errors import ConflictError, RunError
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.kafka.sending import Headers, sending
from worker.seeds.reducer import MAX_READ_PAUSE_S, StateT, TopicReducer


class KeyedTopic(Generic[StateT]):
    def __init__(
        self, cluster: TopicReader, config: Config, topic: str, what: str,
        headers: Callable[[bytes], Headers], reducer: Callable[[], TopicReducer[StateT]],
    ) -> None:  # fmt: skip
        """`what` names one record in messages; `headers` makes those of a key."""
        self.cluster, self._config = cluster, config
        self._topic, self._what, self._headers = topic, what, headers
        self._new_reducer, self._reducer = reducer, reducer()
        self._next_offsets: Offsets = {}  # where the reducer's reading goes on
        self._identity: object = None  # of the topic that the reducer has read
        self._read_at = 0.0

    def state(self) -> StateT:
        """Reads only what came since the last call.

        A topic of several partitions has to be replaced: a key may be in two, and the time decides.
        """
        end, identity = self.cluster.ends(self._topic), self.cluster.identity(self._topic)
        is_recreated = identity != self._identity or any(
            end.get(part, 0) < offset for part, offset in self._next_offsets.items()
        )
        if is_recreated or time.time() - self._read_at > MAX_READ_PAUSE_S:
            self._reducer, self._next_offsets = self._new_reducer(), {}
            self._identity = identity
        start = self.cluster.beginnings(self._topic) | self._next_offsets
        gaps = self.cluster.unreadable(self._topic)
        for batch in merge_by_time(self.cluster.read(self._topic, start, end), len(end)):
            self._reducer.apply(batch)
        if gaps := self.cluster.unreadable(self._topic) - gaps:
            self._reducer.skip(gaps)
        self._reducer.finish()
        self._next_offsets, self._read_at = end, time.time()
        return self._reducer.snapshot()

    def publish(self, records: Mapping[bytes, bytes | None], state: StateT | None = None) -> None:
        """Publish records, wait for every replica, and read back that each is the latest.

        Raises ConflictError if a key was published since `state` was read. Kafka has no
        compare-and-set: a moment remains in which a change is not noticed.
        """
        if state is not None:
            self._refuse_conflict(records, state)
        before = self.cluster.ends(self._topic)
        with sending(self._config) as outbox:
            for key, value in records.items():
                outbox.send(self._topic, value, key, self._headers(key))
            outbox.settle()
        after = {r.key: r for batch in self.cluster.read(self._topic, before) for r in batch}
        for key, value in records.items():
            name = key.decode(errors="backslashreplace")
            if key not in after:
                raise RunError(
                    f"{self._what} {name!r}: is written, and takes effect when the "
                    f"transaction ends that another producer has open on {self._topic}"
                )
            if after[key].value != value:
                raise RunError(
                    f"{self._what} {name!r}: another record was published at the same moment; "
                    f"look at it with `newsift {self._what}s list`, then try again"
                )

    def _refuse_conflict(self, records: Mapping[bytes, bytes | None], state: StateT) -> None:
        end = self.cluster.ends(self._topic)
        if any(end.get(part, 0) < offset for part, offset in state.offsets.items()):
            raise ConflictError(f"{self._topic}: was recreated since it was read; try again")
        start = self.cluster.beginnings(self._topic) | dict(state.offsets)
        for batch in self.cluster.read(self._topic, start, end):
            for record in batch:
                if record.key in records:
                    name = (record.key or b"").decode(errors="backslashreplace")
                    raise ConflictError(
                        f"{self._what} {name!r}: was published by somebody else, at offset "
                        f"{record.offset}, since the topic was read ({state.version}); nothing is "
                        f"changed; look at it with `newsift {self._what}s list`, then try again"
                    )


def merge_by_time(
    batches: Iterable[list[StoredMessage]], partitions: int
) -> Iterator[list[StoredMessage]]:
    """The batches of one partition as they come; those of several merged by time.

    The time of a record is the latest timestamp of its partition so far, so that each partition
    keeps the order of its offsets: reducers ignore offsets that go back.
    """
    if partitions == 1:
        yield from batches
        return
    latest: dict[int, int] = {}  # timestamps by partition
    by_time: list[tuple[int, StoredMessage]] = []
    for record in (record for batch in batches for record in batch):
        time_ms = max(record.timestamp, latest.get(record.partition, record.timestamp))
        latest[record.partition] = time_ms
        by_time.append((time_ms, record))
    by_time.sort(key=lambda pair: pair[0])
    yield [record for _, record in by_time]
