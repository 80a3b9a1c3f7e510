"""A topic that keeps the latest record of every key: read, published and read back."""

from collections.abc import Callable, Mapping

from worker.config import Config
from worker.errors import RunError
from worker.kafka.reading import StoredMessage, TopicReader
from worker.kafka.sending import Headers, sending

Latest = dict[bytes | None, StoredMessage]


class KeyedTopic:
    """The latest record of every key of a topic, and a way to replace it."""

    def __init__(
        self,
        cluster: TopicReader,
        config: Config,
        topic: str,
        what: str,
        headers: Callable[[bytes], Headers],
    ) -> None:
        """`what` one of its records is called, and which headers it is published with."""
        self.cluster, self._config = cluster, config
        self._topic, self._what, self._headers = topic, what, headers

    def latest(self, start: dict[int, int] | None = None) -> Latest:
        """The latest record of every key, deletions included.

        In a topic of several partitions, which is one that has to be replaced, a key may stand in
        two: then the time decides.
        """
        found: Latest = {}
        for batch in self.cluster.read(self._topic, start):
            for record in batch:
                other = found.get(record.key)
                if other is None or later(record, other):
                    found[record.key] = record
        return found

    def publish(self, records: Mapping[bytes, bytes | None]) -> None:
        """Publish records, wait for every replica, and read back that each is the latest."""
        before = self.cluster.ends(self._topic)
        with sending(self._config) as outbox:
            for key, value in records.items():
                outbox.send(self._topic, value, key, self._headers(key))
            outbox.settle()
        after = self.latest(before)
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


def value_in(latest: Latest, key: bytes) -> bytes | None:
    """The latest value of a key; None where there is none, or it was deleted."""
    record = latest.get(key)
    return None if record is None else record.value


def later(record: StoredMessage, before: StoredMessage) -> bool:
    """Whether a record that was read after another of its key takes effect."""
    return record.partition == before.partition or record.timestamp >= before.timestamp
