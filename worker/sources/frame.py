"""What a source hands on: frames as the platform sent them, and gaps that nothing can fill."""

from dataclasses import dataclass

import msgspec

Cursor = int | str


class Frame(msgspec.Struct, frozen=True, gc=False):
    """One message of a platform, on its way to the topic of posts."""

    value: bytes  # as the platform sent it; empty where there is but a cursor to note
    key: bytes | None = None  # the platform's id of the post
    cursor: Cursor | None = None  # where to go on once this and all before are acknowledged
    at: float | None = None  # when it happened by the platform's clock, in seconds since 1970


@dataclass(frozen=True, slots=True)
class Gap:
    """Posts that the platform no longer gives: why, and how many seconds of them, if known."""

    why: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a source was acknowledged, and whose cursor that is."""

    cursor: Cursor
    place: str  # the host, or whatever else gave the cursor
    at: float | None = None  # the platform's time at the cursor, in seconds since 1970
