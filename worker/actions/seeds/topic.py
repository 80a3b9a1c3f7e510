"""The control topic as the commands use it: the latest record per seed, published and read back."""

from collections.abc import Iterator
from contextlib import contextmanager

from encoder.errors import InputError
from worker.actions.keyed import KeyedTopic, Latest
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.sending import Headers
from worker.seeds.record import PREFIX

SCHEMA = (("schema", b"newsift.seed/1"),)
PROFILE_SCHEMA = (("schema", b"newsift.profile/1"),)


class SeedTopic(KeyedTopic):
    """The latest record of every seed, and a way to replace it."""

    def __init__(self, cluster: TopicReader, config: Config) -> None:
        super().__init__(cluster, config, config.topics.seeds, "seed", headers_of)


def headers_of(key: bytes) -> Headers:
    """The headers of a seed, or of the profile of an event."""
    return PROFILE_SCHEMA if key.startswith(PREFIX.encode()) else SCHEMA


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
