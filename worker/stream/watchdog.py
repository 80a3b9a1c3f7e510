"""The watchdog ends a worker that makes no progress although it could."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import NoReturn

from worker.errors import StalledError
from worker.stream.partitions import Backlog


@dataclass(frozen=True, slots=True)
class Observation:
    backlogs: Mapping[int, Backlog]  # by partition; without those whose broker does not answer
    paused: bool  # something outside holds the worker up, and it waits on purpose
    finished: int  # batches, since the start
    portions_read: int = 0  # by the transformer, which may take minutes for one batch


class Watchdog:
    """Fires if there is lag, nothing is paused, the broker answers, and nothing progresses.

    A batch whose posts are being read, portion after portion, is progress.

    Either nothing was finished or committed for the stall time, or one partition made no progress
    while others did. A busy worker serves partitions in turn, so the second limit grows with the
    number of partitions that have lag.
    """

    def __init__(self, stall_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._stall_s, self._clock = stall_s, clock
        self._since = clock()
        self._finished = self._portions_read = 0
        self._progress: dict[int, tuple[int, float]] = {}  # how far a partition was, and since when

    def observe(self, observation: Observation) -> None:
        """Raises StalledError if nothing progressed for the whole stall time."""
        now = self._clock()
        behind = {
            number: backlog for number, backlog in observation.backlogs.items() if backlog.lag
        }
        before, self._progress = self._progress, {}
        progress = {
            number
            for number, backlog in observation.backlogs.items()
            if number in before and before[number][0] != backlog.done
        }
        finished = observation.finished != self._finished
        reading = observation.portions_read != self._portions_read and not finished
        excused = observation.paused or reading
        if progress or finished or excused or not behind:
            self._since = now
        self._finished, self._portions_read = observation.finished, observation.portions_read
        for number, backlog in behind.items():
            stuck = number in before and number not in progress and not excused
            self._progress[number] = before[number] if stuck else (backlog.done, now)
        if now - self._since >= self._stall_s:
            waiting = sum(backlog.lag for backlog in behind.values())
            self._fire("no batch has finished", now - self._since, f"{waiting} posts wait")
        for number, (_, since) in self._progress.items():
            if now - since >= self._stall_s * len(behind):
                waiting = behind[number].lag
                what = f"partition {number} has not moved"
                self._fire(what, now - since, f"{waiting} posts wait in it")

    def _fire(self, what: str, idle: float, waiting: str) -> NoReturn:
        raise StalledError(
            f"{what} for {idle:.0f} s (stream.stall_s: {self._stall_s:g}), although {waiting} and "
            "the broker answers; restart the worker"
        )
