"""The interface between the collector and its sources: frames, positions, gaps, errors."""

import random
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Protocol

import msgspec
from aiohttp import ClientSession

from worker.errors import RunError

Cursor = int | str


class SourceFrame(msgspec.Struct, frozen=True, gc=False):
    value: bytes  # unchanged, as the platform sent it; empty for a frame that only moves the cursor
    key: bytes | None = None  # the platform's id of the post
    cursor: Cursor | None = None  # where to resume after this frame
    at: float | None = None  # the platform's time of the post, in seconds since 1970
    headers: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True, slots=True)
class Gap:
    """Posts that the platform no longer has."""

    why: str
    seconds: float | None = None  # None if unknown


@dataclass(frozen=True, slots=True)
class SourcePosition:
    """The acknowledged position in a source."""

    cursor: Cursor
    place: str  # the host or folder that the cursor belongs to
    at: float | None = None  # the platform's time at the cursor, in seconds since 1970


@dataclass(slots=True, eq=False)
class Backoff:
    """Pauses in seconds that grow from `first` to `longest` by a factor, or else by a step.

    Each is longer by a random share of at most `jitter`, so that clients do not reconnect at once.
    """

    first: float
    longest: float
    factor: float = 2.0
    step: float = 0.0
    jitter: float = 0.2
    _next: float | None = field(default=None, init=False, repr=False)

    def pause(self) -> float:
        """The seconds to wait now; the next call returns more."""
        now = self.first if self._next is None else self._next
        self._next = min(self.longest, now * self.factor + self.step)
        return min(self.longest, now * (1 + self.jitter * random.random()))

    def reset(self) -> None:
        self._next = None


Arrivals = AsyncGenerator[Sequence[SourceFrame] | Gap, None]

# Why a connection ended. The values are labels of a metric.
CLOSED = "closed"  # the platform closed it
UNREACHABLE = "unreachable"  # it could not be opened, or it broke
STALLED = "stalled"  # no data arrived for too long
BUSY = "busy"  # HTTP 5xx, or a temporary refusal
LIMITED = "limited"  # HTTP 429: too many requests
ANNOUNCED = "announced"  # the platform sent a message that says why
TOO_OLD = "too_old"  # the platform no longer has the posts at the cursor
MALFORMED = "malformed"  # the platform's answer is not as documented
REASONS = (CLOSED, UNREACHABLE, STALLED, BUSY, LIMITED, ANNOUNCED, TOO_OLD, MALFORMED)


class LostError(RunError):
    """A connection has ended; the next may be opened after `wait` seconds.

    What a retry cannot cure, such as a refused token, is an AccessError and ends the command.
    """

    def __init__(self, reason: str, message: str, wait: float = 0.0) -> None:
        assert reason in REASONS
        super().__init__(message)
        self.reason, self.wait = reason, wait


def seconds_since(at: float | None) -> float | None:
    """None for None, 0 for a time in the future."""
    return None if at is None else max(0.0, time() - at)


class SourceEndedError(Exception):
    """All requested posts were yielded; the command ends once they are acknowledged."""


class LiveSource(Protocol):
    """A platform that posts come from. `name` is that of `newsift collect NAME`."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str:
        """The host or folder that the cursors belong to."""

    def arrivals(self, session: ClientSession, position: SourcePosition | None) -> Arrivals:
        """The frames of one connection, from the position's post on; LostError at its end.

        Without a position it starts with new posts. A Gap is yielded where posts since the position
        are lost. An empty list says that the connection is open.
        """

    def backoff(self, error: LostError) -> Backoff:
        """The pauses before the next connection; the collector resets them after progress."""
