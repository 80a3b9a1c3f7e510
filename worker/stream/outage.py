"""An outage in the log: when it begins, once a minute while it lasts, and when it is over."""

import logging
import time
from collections.abc import Callable

AGAIN_S = 60.0


class Outage:
    """Something that is tried again and again."""

    def __init__(
        self, log: logging.Logger, what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._what, self._clock = log, what, clock
        self._began: float | None = None
        self._last = 0.0  # when it was logged last

    def failed(self, error: Exception) -> None:
        """Log a failure, unless one was logged within the minute."""
        now = self._clock()
        if self._began is None:
            self._began = now
            self._log.warning("%s failed and is tried again: %s", self._what, error)
        elif now - self._last < AGAIN_S:
            return
        else:
            self._log.warning("%s has failed for %.0f s: %s", self._what, now - self._began, error)
        self._last = now

    def ended(self) -> None:
        """Log that it works again, if it did not."""
        if self._began is not None:
            self._log.warning(
                "%s works again, after %.0f s", self._what, self._clock() - self._began
            )
            self._began = None
