"""What the desk does to seeds: one change at a time, on what was seen, and removals undone."""

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any

from encoder.errors import InputError
from worker.actions.keyed import Latest, value_in
from worker.actions.seeds.change import changed
from worker.actions.seeds.topic import SeedTopic, known, seed_topic
from worker.config import Config
from worker.desk.turn import one_at_a_time
from worker.seeds.profile import Compared

MARK = 16  # hex digits
KEPT = 20  # removals that can be undone
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


def current(latest: Latest, name: str, mark: str) -> bytes:
    """The key of a seed, which has to be as whoever wants to change it has seen it."""
    key = known(latest, name)
    if mark_of(latest[key].value) != mark:
        raise InputError(f"seed {name!r}: {CHANGED}")
    return key


class Keeping:
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
        turn = one_at_a_time(self._acting, "another change is on its way")
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
            latest = topic.latest()
            key = current(latest, name, mark)
            topic.publish({key: None})
            self._number += 1
            removal = Removal(self._number, name, by, key, latest[key].value or b"")
            self._removals = [*self._removals, removal][-KEPT:]
            return removal

    def undo(self, number: int) -> Removal:
        """Publish the former record of a seed again, unless there is another by now."""
        with self.topic() as topic:
            removal = next((each for each in self._removals if each.number == number), None)
            if removal is None:
                raise InputError("this removal cannot be undone any more; add the seed again")
            is_there = value_in(topic.latest(), removal.key) is not None
            if not is_there:
                topic.publish({removal.key: removal.value})
            self._removals = [each for each in self._removals if each is not removal]
            if is_there:
                raise InputError(f"seed {removal.name!r}: is there again; it stays as it is")
            return removal

    def change(self, name: str, mark: str, changes: Mapping[str, Any]) -> Compared:
        """Publish a seed that is as it was seen with changes; None takes a key away."""
        with self.topic() as topic:
            current(topic.latest(), name, mark)
            return changed(topic, name, changes, self._config)

    def publish(self, records: Mapping[bytes, bytes], marks: Mapping[bytes, str]) -> Latest:
        """Publish seeds whose records are still as they were seen; the records from before."""
        with self.topic() as topic:
            before = topic.latest()
            for key in records:
                if mark_of(value_in(before, key)) != marks[key]:
                    name = key.decode(errors="backslashreplace")
                    raise InputError(f"seed {name!r}: {CHANGED}")
            topic.publish(records)
            return before
