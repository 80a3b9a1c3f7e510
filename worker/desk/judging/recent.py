"""The matches that labels are held against, kept for a short while: labels come far more often."""

import time
from collections.abc import Callable, Mapping
from threading import Lock

from worker.actions.labels.candidates import Found, matches_of
from worker.actions.told import listening
from worker.config import Config
from worker.desk.fresh import Fresh
from worker.desk.turn import one_at_a_time
from worker.judge.labels import PostId
from worker.kafka.reading import connected

DAY_MS = 86_400_000  # of matches, as `newsift events promise` takes them
MOST_EVENTS = 4  # whose matches are kept
FRESH_S = 20.0  # that they are kept, or longer where reading them takes long
TIMES = 10  # as long as it takes to read them


class Recent:
    """Reads an event's matches again once those that it has are old; from several threads."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._reading = config, Lock()
        self._kept = Fresh(self._read, FRESH_S, MOST_EVENTS, TIMES, clock)

    def of(self, event: str) -> Mapping[PostId, Found]:
        """The matches of an event; those of before, while another thread reads them again."""
        return self._kept.of(event)

    def _read(self, event: str) -> Mapping[PostId, Found]:
        with (
            one_at_a_time(self._reading, "the matches of another event are being read"),
            listening(), connected(self._config) as cluster,
        ):  # fmt: skip
            start = int(time.time() * 1000) - DAY_MS
            return matches_of(cluster, self._config, event, start)
