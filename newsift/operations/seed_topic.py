"""The control topic as commands and desk use it."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from encoder.errors import InputError
from newsift.operations.keyed_topic import KeyedTopic
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.sending import Headers
from worker.seeds.record import PROFILE_PREFIX
from worker.seeds.state import ControlReducer, ControlState


class SeedTopic(KeyedTopic[ControlState]):
    def __init__(self, cluster: TopicReader, config: Config) -> None:
        reducer = partial(ControlReducer, config.limits)
        super().__init__(cluster, config, config.topics.seeds, "seed", _record_headers, reducer)


def _record_headers(key: bytes) -> Headers:
    kind = b"profile" if key.startswith(PROFILE_PREFIX.encode()) else b"seed"
    return (("schema", b"newsift.%s/1" % kind),)


@contextmanager
def seed_topic(config: Config) -> Iterator[SeedTopic]:
    """Raises if the topic is missing."""
    with connected(config) as cluster:
        cluster.partitions(config.topics.seeds)
        yield SeedTopic(cluster, config)


def find_key(state: ControlState, name: str) -> bytes:
    """A key that is not UTF-8 is named with escapes, as the list shows it."""
    if (key := name.encode("utf-8", "surrogatepass")) and state.value(key) is not None:
        return key
    for record in state.records.values():
        if record.key and record.key.decode("utf-8", "backslashreplace") == name:
            return record.key
    raise InputError(f"seed {name!r}: there is none of this id; see newsift seeds list")
