"""Changes of seeds at the desk: refused if somebody changed the record, and undone if asked."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from threading import Lock
from typing import Any

from encoder.errors import InputError
from newsift.desk.threads import lock_or_busy
from newsift.operations.seed_drafts import change_seeds, require_room
from newsift.operations.seed_topic import SeedTopic, find_key, seed_topic
from worker.config import Config
from worker.seeds.profile import SeedOrProfile
from worker.seeds.record import Seed
from worker.seeds.state import ControlState

ETAG_DIGITS = 16
MAX_REMOVALS = 20
CHANGED_BY_OTHERS = "has been changed by somebody since you looked at it; look again"


@dataclass(frozen=True, slots=True)
class Removal:
    number: int
    name: str
    by: str
    key: bytes
    value: bytes  # of the record that was removed


def etag_of(value: bytes | None) -> str:
    """Names a record; empty where there is none."""
    return "" if value is None else hashlib.sha256(value).hexdigest()[:ETAG_DIGITS]


def require_etag(state: ControlState, key: bytes, etag: str) -> bytes:
    if etag_of(state.value(key)) != etag:
        name = key.decode(errors="backslashreplace")
        raise InputError(f"seed {name!r}: {CHANGED_BY_OTHERS}")
    return key


class SeedEditor:
    def __init__(self, config: Config) -> None:
        self._config = config
        self._editing = Lock()
        self.trying = Lock()  # drafts are tried one request at a time
        self.removals: list[Removal] = []  # replaced at each change
        self._numbers = count(1)

    @contextmanager
    def topic(self) -> Iterator[SeedTopic]:
        """One request at a time."""
        turn = lock_or_busy(self._editing, "another change is being published")
        with turn, seed_topic(self._config, make=True) as topic:
            yield topic

    def remove(self, name: str, etag: str, by: str) -> Removal:
        with self.topic() as topic:
            state = topic.state()
            key = require_etag(state, find_key(state, name), etag)
            topic.publish({key: None}, state)
            removal = Removal(next(self._numbers), name, by, key, state.value(key) or b"")
            self.removals = [*self.removals, removal][-MAX_REMOVALS:]
            return removal

    def undo(self, number: int) -> Removal:
        """Refused if the seed exists again."""
        with self.topic() as topic:
            removal = next((entry for entry in self.removals if entry.number == number), None)
            if removal is None:
                raise InputError("this removal cannot be undone any more; add the seed again")
            state = topic.state()
            exists = state.value(removal.key) is not None
            if not exists:
                topic.publish({removal.key: removal.value}, state)
            self.removals = [entry for entry in self.removals if entry is not removal]
            if exists:
                raise InputError(f"seed {removal.name!r}: exists again; it is left as it is")
            return removal

    def change(self, name: str, etag: str, changes: Mapping[str, Any]) -> SeedOrProfile:
        """None deletes a key."""
        with self.topic() as topic:
            state = topic.state()
            require_etag(state, find_key(state, name), etag)
            return change_seeds(topic, state, [name], changes, self._config)[0]

    def publish(
        self, records: Mapping[bytes, bytes], etags: Mapping[bytes, str], seeds: Iterable[Seed]
    ) -> ControlState:
        """Returns the state before; each record must still have its etag.

        `seeds` are the parsed records.
        """
        with self.topic() as topic:
            before = topic.state()
            for key in records:
                require_etag(before, key, etags[key])
            require_room(before, seeds, self._config)
            topic.publish(records, before)
            return before
