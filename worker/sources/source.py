"""What every source of posts is to the collector, and how one of its connections ends."""

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from aiohttp import ClientSession

from worker.errors import RunError
from worker.sources.backoff import Backoff
from worker.sources.frame import Frame, Gap, Mark

Arrivals = AsyncGenerator[Sequence[Frame] | Gap, None]

# Why a connection ended: the label of a metric, so the list is closed.
CLOSED = "closed"  # by the platform, in order or not
UNREACHABLE = "unreachable"  # no connection came about, or it broke
STALLED = "stalled"  # nothing came for too long
BUSY = "busy"  # HTTP 5xx: the platform cannot serve us now
LIMITED = "limited"  # HTTP 429: too many requests
TOLD = "told"  # the platform said in words that it ends
TOO_OLD = "too_old"  # it no longer has what stands at the cursor
MALFORMED = "malformed"  # what came is not what the platform is documented to send
REASONS = (CLOSED, UNREACHABLE, STALLED, BUSY, LIMITED, TOLD, TOO_OLD, MALFORMED)


class LostError(RunError):
    """A connection has ended and another is to be made.

    `wait` is how long the platform asks to stay away at least. What waiting does not cure (a token
    that is refused, say) is an AccessError instead, and ends the command.
    """

    def __init__(self, reason: str, said: str, wait: float = 0.0) -> None:
        assert reason in REASONS
        super().__init__(said)
        self.reason, self.wait = reason, wait


class EnoughError(Exception):
    """All that was asked for has come: the command ends once that is acknowledged."""


class LiveSource(Protocol):
    """A platform that posts come from."""

    @property
    def name(self) -> str:
        """As in `newsift collect NAME`."""
        ...

    @property
    def place(self) -> str:
        """Whose cursors the frames carry: the host that is connected, or will be next."""
        ...

    def arrivals(self, session: ClientSession, mark: Mark | None) -> Arrivals:
        """What comes by one connection, from the mark on, inclusive; LostError when it ends.

        Without a mark it begins with what is new. A Gap is handed on where posts since the mark are
        lost for good. Lists hold what came at once; an empty one says that the connection stands.
        """
        ...

    def backoff(self, lost: LostError) -> Backoff:
        """The pauses before the next connection; all are reset once it gets on.

        It gets on when a frame is acknowledged whose cursor is another than before, or none.
        """
        ...
