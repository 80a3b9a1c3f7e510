"""The matches that labels are held against, kept for a short while: labels come far more often."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import NamedTuple

from worker.actions.labels.candidates import Found, matches_of
from worker.actions.told import listening
from worker.config import Config
from worker.judge.labels import PostId
from worker.kafka.reading import connected

DAY_MS = 86_400_000  # of matches, as `newsift events promise` takes them
MOST_EVENTS = 4  # whose matches are kept
FRESH_S = 20.0  # that they are kept, or longer where reading them takes long
TIMES = 10  # as long as it takes to read them


class Lately(NamedTuple):
    """An event's matches of the last 24 hours, and for how long they stand."""

    found: Mapping[PostId, Found]
    until: float


class Recent:
    """Reads an event's matches again once those that it has are old; from several threads."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._clock = config, clock
        self._lock = Lock()
        self._reading = Lock()
        self._kept: OrderedDict[str, Lately] = OrderedDict()

    def of(self, event: str) -> Mapping[PostId, Found]:
        """The matches of an event; those of before, while another thread reads them again."""
        kept = self._lately(event)
        if kept is not None and (self._clock() < kept.until or self._reading.locked()):
            return kept.found
        with self._reading:
            kept = self._lately(event)
            if kept is None or self._clock() >= kept.until:
                kept = self._keep(event, self._read(event))
            return kept.found

    def _lately(self, event: str) -> Lately | None:
        with self._lock:
            return self._kept.get(event)

    def _read(self, event: str) -> Lately:
        began = self._clock()
        with listening(), connected(self._config) as cluster:
            start = int(time.time() * 1000) - DAY_MS
            found = matches_of(cluster, self._config, event, start)
        took = self._clock() - began
        return Lately(found, self._clock() + max(FRESH_S, TIMES * took))

    def _keep(self, event: str, lately: Lately) -> Lately:
        with self._lock:
            self._kept[event] = lately
            self._kept.move_to_end(event)
            while len(self._kept) > MOST_EVENTS:
                self._kept.popitem(last=False)
        return lately
