"""The control topic as commands and desk use it."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from encoder.errors import InputError
from newsift.operations.keyed_topic import KeyedTopic
from newsift.operations.messages import notify
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.sending import Headers
from worker.kafka.topics import ensure_topic
from worker.seeds.profile import Profile
from worker.seeds.record import PROFILE_PREFIX
from worker.seeds.state import ControlReducer, ControlState, stale_reason


class SeedTopic(KeyedTopic[ControlState]):
    def __init__(self, cluster: TopicReader, config: Config) -> None:
        reducer = partial(ControlReducer, config.limits)
        super().__init__(cluster, config, config.topics.seeds, "seed", _record_headers, reducer)

    def publish(
        self, records: Mapping[bytes, bytes | None], state: ControlState | None = None
    ) -> None:
        """Reports profiles that the change makes stale, and promises that it ends."""
        super().publish(records, state)
        if state is None:
            return
        ids = {key.decode("utf-8", "replace") for key in records}
        profiles = [
            profile
            for profile in state.profiles.values()
            if not ids.isdisjoint([profile.id, *profile.seeds])
            and has_current_seeds(profile, state)
        ]
        after = self.state() if profiles else state
        for profile in profiles:
            if new := after.profiles.get(profile.event):
                _report_end(profile, new, after)


def has_current_seeds(profile: Profile, state: ControlState) -> bool:
    """Whether each of its seeds stands at its version; its model may be another."""
    return not stale_reason(profile, state.seeds, profile.model)


def _report_end(old: Profile, new: Profile, state: ControlState) -> None:
    name = f"event {old.event!r}"
    promise = ", and its promise lapses" if new.promise else ""
    first = "give the promise up (events forget) and " if new.promise else ""
    if reason := stale_reason(new, state.seeds, new.model):
        notify(
            f"{name}: its profile is stale now ({reason}), so its seeds are used{promise}; "
            f"undo that, or {first}let it learn again (events learn)"
        )
    elif old.promise and not new.promise and old.version == new.version:
        notify(f"{name}: its promise is given up: it was of another threshold")


def _record_headers(key: bytes) -> Headers:
    kind = b"profile" if key.startswith(PROFILE_PREFIX.encode()) else b"seed"
    return (("schema", b"newsift.%s/1" % kind),)


@contextmanager
def seed_topic(config: Config, make: bool = False) -> Iterator[SeedTopic]:
    """Raises if the topic is missing, unless it is to be made."""
    if make:
        ensure_topic(config, config.topics.seeds)
    with connected(config) as cluster:
        cluster.partitions(config.topics.seeds)
        yield SeedTopic(cluster, config)


def find_key(state: ControlState, name: str) -> bytes:
    """A key that is not UTF-8 is named with escapes, as the list shows it."""
    if state.value(key := name.encode("utf-8", "surrogatepass")) is not None:
        return key
    for record in state.records.values():
        if record.key and record.key.decode("utf-8", "backslashreplace") == name:
            return record.key
    raise InputError(f"seed {name!r}: there is none of this id; see newsift seeds list")
