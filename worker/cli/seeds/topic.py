"""The control topic as the commands use it: the latest record per seed, published and read back."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from encoder.errors import InputError
from worker.config import Config
from worker.errors import RunError
from worker.kafka.reading import StoredMessage, TopicReader, connected
from worker.kafka.sending import sending
from worker.seeds.record import PREFIX

SCHEMA = (("schema", b"newsift.seed/1"),)
PROFILE_SCHEMA = (("schema", b"newsift.profile/1"),)

Latest = dict[bytes | None, StoredMessage]


class SeedTopic:
    """The latest record of every seed, and a way to replace it."""

    def __init__(self, cluster: TopicReader, config: Config) -> None:
        self._cluster = cluster
        self._config = config
        self._topic = config.topics.seeds

    def latest(self, start: dict[int, int] | None = None) -> Latest:
        """The latest record of every key, deletions included.

        In a topic of several partitions, which is one that has to be replaced, a key may stand in
        two: then the time decides.
        """
        found: Latest = {}
        for batch in self._cluster.read(self._topic, start):
            for record in batch:
                other = found.get(record.key)
                if (
                    other is None
                    or other.partition == record.partition
                    or other.timestamp <= record.timestamp
                ):
                    found[record.key] = record
        return found

    def publish(self, records: Mapping[bytes, bytes | None]) -> None:
        """Publish records, wait for every replica, and read back that each is the latest."""
        before = self._cluster.ends(self._topic)
        with sending(self._config) as outbox:
            for key, value in records.items():
                is_profile = key.startswith(PREFIX.encode())
                outbox.send(self._topic, value, key, PROFILE_SCHEMA if is_profile else SCHEMA)
            outbox.settle()
        after = self.latest(before)
        for key, value in records.items():
            name = key.decode(errors="backslashreplace")
            if key not in after:
                raise RunError(
                    f"seed {name!r}: is written, and takes effect when the transaction ends that "
                    f"another producer has open on {self._topic}"
                )
            if after[key].value != value:
                raise RunError(
                    f"seed {name!r}: another record was published at the same moment; "
                    "look at it with `newsift seeds show`, then try again"
                )


@contextmanager
def seed_topic(config: Config) -> Iterator[SeedTopic]:
    """The control topic of a configuration; it has to exist."""
    with connected(config) as cluster:
        cluster.partitions(config.topics.seeds)
        yield SeedTopic(cluster, config)


def known(latest: Latest, name: str) -> bytes:
    """The key of a seed that is there; one that is no text is named as the list shows it."""
    for key, record in latest.items():
        if key and record.value is not None and key.decode("utf-8", "backslashreplace") == name:
            return key
    raise InputError(f"seed {name!r}: there is none of this id; see newsift seeds list")
