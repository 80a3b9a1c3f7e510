"""The watchdog: a worker that stands still, although it could go on, ends loudly."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import NoReturn

from worker.errors import StalledError
from worker.stream.offsets import Backlog


@dataclass(frozen=True, slots=True)
class Sight:
    """What the watchdog sees when it looks."""

    backlogs: Mapping[int, Backlog]  # by partition; without those of which no broker tells
    paused: bool  # something outside holds the worker up, and it waits on purpose
    finished: int  # batches, since the start


class Watchdog:
    """Fires when posts wait, nothing is paused, the broker answers, and nothing moves.

    Either nothing at all has been finished or committed for the time of a stall, or one partition
    has not moved for that time although others do. A busy worker comes to each partition in turn,
    so the second time is longer, by the number of those that wait.
    """

    def __init__(self, stall_s: float, clock: Callable[[], float] = monotonic) -> None:
        self._stall_s, self._clock = stall_s, clock
        self._since = clock()
        self._finished = 0
        self._seen: dict[int, tuple[int, float]] = {}  # how far a partition was, and since when

    def look(self, sight: Sight) -> None:
        """Take one look; StalledError when all looks of so long a time saw it stand still."""
        now = self._clock()
        behind = {number: each for number, each in sight.backlogs.items() if each.lag}
        before, self._seen = self._seen, {}
        moved = {
            number
            for number, each in sight.backlogs.items()
            if number in before and before[number][0] != each.done
        }
        if moved or sight.finished != self._finished or sight.paused or not behind:
            self._since = now
        self._finished = sight.finished
        for number, each in behind.items():
            stands = number in before and number not in moved and not sight.paused
            self._seen[number] = before[number] if stands else (each.done, now)
        if now - self._since >= self._stall_s:
            waiting = sum(each.lag for each in behind.values())
            self._fire("no batch has finished", now - self._since, f"{waiting} posts wait")
        for number, (_, since) in self._seen.items():
            if now - since >= self._stall_s * len(behind):
                waiting = behind[number].lag
                what = f"partition {number} has not moved"
                self._fire(what, now - since, f"{waiting} posts wait in it")

    def _fire(self, what: str, idle: float, waiting: str) -> NoReturn:
        raise StalledError(
            f"{what} for {idle:.0f} s (stream.stall_s: {self._stall_s:g}), although {waiting} and "
            "the broker answers; restart the worker"
        )
