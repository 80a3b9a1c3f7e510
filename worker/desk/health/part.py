"""Something that is looked at every few seconds while somebody looks, by a thread of its own."""

import logging
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Generic, TypeVar

from encoder.errors import NewsiftError

LOOKED_S = 15.0  # after which nobody is taken to look any more
NOT_YET = "it is not looked at yet"
T = TypeVar("T")
log = logging.getLogger("newsift.desk")


class Eyes:
    """Whether somebody looks; many threads ask."""

    def __init__(self) -> None:
        self._last, self._seen, self.ended = -LOOKED_S, Event(), Event()

    def look(self) -> None:
        """Somebody looks now."""
        self._last = time.monotonic()
        self._seen.set()

    def wait(self) -> bool:
        """Wait until somebody looks; False once all is over."""
        while not self.ended.is_set() and time.monotonic() - self._last > LOOKED_S:
            self._seen.clear()
            if time.monotonic() - self._last > LOOKED_S:  # nobody came in between
                self._seen.wait(LOOKED_S)
        return not self.ended.is_set()

    def close(self) -> None:
        """All is over."""
        self.ended.set()
        self._seen.set()


class Part(Generic[T]):
    """The latest answer to a question, and why there is none any more, if so."""

    def __init__(
        self, name: str, ask: Callable[[], T], eyes: Eyes, moved: Callable[[], None],
        every_s: float = 5.0,
    ) -> None:  # fmt: skip
        """`moved` is told of each answer, and of each refusal."""
        self.name, self._ask, self._eyes, self._moved = name, ask, eyes, moved
        self._every_s = every_s
        self.answer: T | None = None
        self.away = NOT_YET
        self.at: float | None = None  # when it was last answered, in seconds since 1970
        self.since = time.time()  # when it began to be away, or to be there

    def start(self) -> None:
        """Begin to look when somebody does."""
        Thread(target=self._run, name=f"desk-{self.name}", daemon=True).start()

    def _run(self) -> None:
        while self._eyes.wait():
            self.look()
            self._moved()
            self._eyes.ended.wait(self._every_s)

    def look(self) -> None:
        """Ask once."""
        try:
            self.answer, away, self.at = self._ask(), "", time.time()
        except NewsiftError as error:
            away = str(error)
        except Exception as error:
            log.exception("%s: it cannot be told how it is", self.name)
            away = f"{type(error).__name__}: {error}"
        if bool(away) != bool(self.away) or self.away == NOT_YET:
            self.since = time.time()
        self.away = away
