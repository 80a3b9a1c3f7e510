"""Sessions: who has shown the token, under a random id that the browser keeps as a cookie."""

import secrets
import time
from collections.abc import Callable

IDLE_S = 12 * 3600.0  # after its last request a session ends
MOST = 256  # sessions; the one that was used longest ago gives way


class Sessions:
    """The ids of a desk's sessions; they end with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._used: dict[str, float] = {}  # when each was used last, longest ago first

    def begin(self) -> str:
        """The id of a new session."""
        if len(self._used) >= MOST:
            del self._used[next(iter(self._used))]
        session_id = secrets.token_urlsafe(32)
        self._used[session_id] = self._clock()
        return session_id

    def use(self, session_id: str) -> bool:
        """Whether there is such a session, which this request prolongs."""
        if not self.holds(session_id):
            return False
        del self._used[session_id]
        self._used[session_id] = self._clock()
        return True

    def holds(self, session_id: str) -> bool:
        """Whether there is such a session; one that has ended is forgotten."""
        used = self._used.get(session_id)
        if used is not None and self._clock() - used > IDLE_S:
            del self._used[session_id]
            return False
        return used is not None
