"""The control topic as commands and desk use it: its state, and changes to its records."""

from collections.abc import Iterator
from contextlib import contextmanager

from encoder.errors import InputError
from newsift.operations.keyed_topic import KeyedTopic
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.sending import Headers
from worker.seeds.record import PREFIX
from worker.seeds.state import ControlReducer, ControlState

SCHEMA = (("schema", b"newsift.seed/1"),)
PROFILE_SCHEMA = (("schema", b"newsift.profile/1"),)


class SeedTopic(KeyedTopic[ControlState]):
    """The state of the seeds, and a way to replace their records."""

    def __init__(self, cluster: TopicReader, config: Config, values: bool = True) -> None:
        """Without `values` the state holds what matching takes and no more."""

        def reducer() -> ControlReducer:
            return ControlReducer(config.limits, values=values)

        super().__init__(cluster, config, config.topics.seeds, "seed", headers_of, reducer)


def headers_of(key: bytes) -> Headers:
    """The headers of a seed, or of the profile of an event."""
    return PROFILE_SCHEMA if key.startswith(PREFIX.encode()) else SCHEMA


@contextmanager
def seed_topic(config: Config) -> Iterator[SeedTopic]:
    """The control topic of a configuration; it has to exist."""
    with connected(config) as cluster:
        cluster.partitions(config.topics.seeds)
        yield SeedTopic(cluster, config)


def key_of(state: ControlState, name: str) -> bytes:
    """The key of a seed that is there; one that is no text is named as the list shows it."""
    for record in state.records.values():
        if record.key and record.key.decode("utf-8", "backslashreplace") == name:
            return record.key
    raise InputError(f"seed {name!r}: there is none of this id; see newsift seeds list")
