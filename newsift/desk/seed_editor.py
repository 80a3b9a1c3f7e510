"""What the desk does to seeds: one change at a time, on what was seen, and removals undone."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from encoder.errors import InputError
from newsift.desk.threads import lock_or_busy
from newsift.operations.seed_drafts import change_seeds
from newsift.operations.seed_topic import SeedTopic, key_of, seed_topic
from worker.config import Config
from worker.seeds.profile import Compared
from worker.seeds.state import ControlState

MARK = 16  # hex digits
MOST_REMOVALS = 20  # removals that can be undone
CHANGED = "has been changed by somebody since you looked at it; look again"


@dataclass(frozen=True, slots=True)
class Removal:
    """A seed that was removed, as its record was."""

    number: int
    name: str
    by: str
    key: bytes
    value: bytes


def mark_of(value: bytes | None) -> str:
    """What tells one record of a seed from another; nothing where there is none."""
    return "" if value is None else hashlib.sha256(value).hexdigest()[:MARK]


def current(state: ControlState, name: str, mark: str) -> bytes:
    """The key of a seed, which has to be as whoever wants to change it has seen it."""
    key = key_of(state, name)
    if mark_of(state.value(key)) != mark:
        raise InputError(f"seed {name!r}: {CHANGED}")
    return key


class SeedEditor:
    """Changes of seeds, one at a time, and what was removed last."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._acting = Lock()
        self.trying = Lock()  # what seeds would match is asked for one by one
        self._removals: list[Removal] = []
        self._number = 0

    @contextmanager
    def topic(self) -> Iterator[SeedTopic]:
        """The control topic, for nobody else of this desk meanwhile."""
        turn = lock_or_busy(self._acting, "another change is on its way")
        with turn, seed_topic(self._config) as topic:
            yield topic

    @property
    def last(self) -> Removal | None:
        """The last removal that can be undone."""
        removals = self._removals
        return removals[-1] if removals else None

    def remove(self, name: str, mark: str, by: str) -> Removal:
        """Delete a seed that is as it was seen."""
        with self.topic() as topic:
            state = topic.state()
            key = current(state, name, mark)
            topic.publish({key: None}, state)
            self._number += 1
            removal = Removal(self._number, name, by, key, state.value(key) or b"")
            self._removals = [*self._removals, removal][-MOST_REMOVALS:]
            return removal

    def undo(self, number: int) -> Removal:
        """Publish the former record of a seed again, unless there is another by now."""
        with self.topic() as topic:
            removal = next((each for each in self._removals if each.number == number), None)
            if removal is None:
                raise InputError("this removal cannot be undone any more; add the seed again")
            state = topic.state()
            is_there = state.value(removal.key) is not None
            if not is_there:
                topic.publish({removal.key: removal.value}, state)
            self._removals = [each for each in self._removals if each is not removal]
            if is_there:
                raise InputError(f"seed {removal.name!r}: is there again; it stays as it is")
            return removal

    def change(self, name: str, mark: str, changes: Mapping[str, Any]) -> Compared:
        """Publish a seed that is as it was seen with changes; None takes a key away."""
        with self.topic() as topic:
            state = topic.state()
            current(state, name, mark)
            return change_seeds(topic, state, [name], changes, self._config)[0]

    def publish(self, records: Mapping[bytes, bytes], marks: Mapping[bytes, str]) -> ControlState:
        """Publish seeds whose records are still as they were seen; the state from before."""
        with self.topic() as topic:
            before = topic.state()
            for key in records:
                if mark_of(before.value(key)) != marks[key]:
                    name = key.decode(errors="backslashreplace")
                    raise InputError(f"seed {name!r}: {CHANGED}")
            topic.publish(records, before)
            return before
