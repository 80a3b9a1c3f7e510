"""What a source of posts is to the collector: frames, marks, gaps, lost connections."""

import random
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from time import time
from typing import Protocol

import msgspec
from aiohttp import ClientSession

from worker.errors import RunError

Cursor = int | str


class SourceFrame(msgspec.Struct, frozen=True, gc=False):
    """One message of a platform."""

    value: bytes  # as the platform sent it; empty where there is but a cursor to note
    key: bytes | None = None  # the platform's id of the post
    cursor: Cursor | None = None  # where to go on once this and all before are acknowledged
    at: float | None = None  # when it happened by the platform's clock, in seconds since 1970


@dataclass(frozen=True, slots=True)
class Gap:
    """Posts that the platform no longer has: the reason, and the seconds if known."""

    why: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class SourceMark:
    """The acknowledged position, and whose cursor it is."""

    cursor: Cursor
    place: str  # the host, or whatever else gave the cursor
    at: float | None = None  # the platform's time at the cursor, in seconds since 1970


@dataclass(slots=True, eq=False)
class Backoff:
    """Pauses that grow from `first` to `longest` seconds, by a factor or a step.

    Each is longer by a random share of at most `jitter`, so that clients do not reconnect at once.
    """

    first: float
    longest: float
    factor: float = 2.0
    step: float = 0.0
    jitter: float = 0.2
    chance: Callable[[], float] = field(default=random.random, repr=False)
    _next: float | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        grows = self.factor > 1 or (self.factor == 1 and self.step >= 0)
        if not (0 <= self.first <= self.longest and grows and self.step >= 0):
            raise ValueError(f"pauses from {self.first} to {self.longest} s do not grow")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter: {self.jitter}; give a share from 0 to 1")

    def pause(self) -> float:
        """The seconds to wait now; the next pause is longer."""
        now = self.first if self._next is None else self._next
        self._next = min(self.longest, now * self.factor + self.step)
        return min(self.longest, now * (1 + self.jitter * self.chance()))

    def reset(self) -> None:
        self._next = None


Arrivals = AsyncGenerator[Sequence[SourceFrame] | Gap, None]

# Why a connection ended: the label of a metric, so the list is closed.
CLOSED = "closed"  # by the platform, in order or not
UNREACHABLE = "unreachable"  # no connection came about, or it broke
STALLED = "stalled"  # nothing came for too long
BUSY = "busy"  # HTTP 5xx: the platform cannot serve us now
LIMITED = "limited"  # HTTP 429: too many requests
ANNOUNCED = "told"  # the platform said in words that it ends
TOO_OLD = "too_old"  # it no longer has what stands at the cursor
MALFORMED = "malformed"  # what came is not what the platform is documented to send
REASONS = (CLOSED, UNREACHABLE, STALLED, BUSY, LIMITED, ANNOUNCED, TOO_OLD, MALFORMED)


class LostError(RunError):
    """A connection has ended; another is to be made after `wait` seconds or more.

    What waiting does not cure, such as a refused token, is an AccessError and ends the command.
    """

    def __init__(self, reason: str, message: str, wait: float = 0.0) -> None:
        assert reason in REASONS
        super().__init__(message)
        self.reason, self.wait = reason, wait


def seconds_since(at: float | None) -> float | None:
    """From a time of the platform until now; None if there is none."""
    return None if at is None else max(0.0, time() - at)


class EnoughError(Exception):
    """All requested posts have arrived: the command ends once they are acknowledged."""


class LiveSource(Protocol):
    """A platform that posts come from. `name` is that of `newsift collect NAME`."""

    @property
    def name(self) -> str: ...

    @property
    def place(self) -> str:
        """The host that is connected, or will be next; cursors belong to it."""
        ...

    def arrivals(self, session: ClientSession, mark: SourceMark | None) -> Arrivals:
        """The frames of one connection from the mark on, inclusive; LostError at its end.

        Without a mark it starts with new posts. A Gap is yielded where posts since the mark are
        lost. Frames that arrived together share a list; an empty list says that the connection is
        open.
        """
        ...

    def backoff(self, lost: LostError) -> Backoff:
        """The pauses before the next connection; all are reset after progress.

        Progress is an acknowledged frame with a new cursor or with none, or a connection that
        lasted.
        """
        ...
