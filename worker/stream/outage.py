"""Logs the beginning of an outage, a line a minute while it lasts, and its end."""

import logging
import time
from collections.abc import Callable

LOG_INTERVAL_S = 60.0


class Outage:
    """The outage of an operation that is retried until it succeeds."""

    def __init__(
        self, log: logging.Logger, what: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._log, self._what, self._clock = log, what, clock
        self._began: float | None = None
        self._last = 0.0  # when it was logged last

    def report_failure(self, error: Exception) -> None:
        """Logs at most once a minute."""
        now = self._clock()
        if self._began is None:
            self._began = now
            self._log.warning("%s failed and is tried again: %s", self._what, error)
        elif now - self._last < LOG_INTERVAL_S:
            return
        else:
            self._log.warning("%s has failed for %.0f s: %s", self._what, now - self._began, error)
        self._last = now

    def report_success(self) -> None:
        """Logs only after a failure."""
        if self._began is not None:
            self._log.warning(
                "%s works again, after %.0f s", self._what, self._clock() - self._began
            )
            self._began = None
