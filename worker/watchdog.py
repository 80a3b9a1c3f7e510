"""The watchdog: a worker that stands still, although it could go on, ends loudly."""

from collections.abc import Callable
from dataclasses import dataclass

from worker.errors import StalledError


@dataclass(frozen=True, slots=True)
class Sight:
    """What the watchdog sees when it looks."""

    lag: int | None  # posts not yet committed; None if the broker does not answer
    paused: bool  # something outside holds the worker up, and it waits on purpose
    finished: int  # batches, since the start


class Watchdog:
    """Fires when there is lag, nothing is paused, the broker answers, and no batch finishes."""

    def __init__(self, stall_s: float, clock: Callable[[], float]) -> None:
        self._stall_s, self._clock = stall_s, clock
        self._since = clock()
        self._finished = 0

    def look(self, sight: Sight) -> None:
        """Take one look; StalledError when all looks of so long a time saw it stand still."""
        excused = not sight.lag or sight.paused or sight.finished != self._finished
        self._finished = sight.finished
        if excused:
            self._since = self._clock()
        idle = self._clock() - self._since
        if idle >= self._stall_s:
            raise StalledError(
                f"no batch has finished for {idle:.0f} s (stream.stall_s: {self._stall_s:g}), "
                f"although {sight.lag} posts wait and the broker answers; restart the worker"
            )
