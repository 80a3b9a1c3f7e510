"""Statuses and events as frames, and ids by which they are ordered."""

import re
from collections import OrderedDict, deque
from time import monotonic
from typing import NamedTuple

import msgspec

from worker.sources.frame import Frame

WRITTEN = ("update", "status.update")
DELETED = "delete"
IDENTITY = re.compile(r"[0-9A-Za-z]{1,64}")
FIRST_SNOWFLAKE = 1_400_000_000_000 << 16  # ids before 2014 are none of Mastodon's
REMEMBERED = 50_000
LATE_S = 60.0  # how late a status of another server may come and still be looked for
PAGE = 40  # the most statuses that a page of a timeline may have


class Identified(msgspec.Struct):
    """A status, of which only the id is read."""

    id: str | int


STATUS = msgspec.json.Decoder(Identified)


def order(id: str) -> tuple[int, str]:
    """Ids in the order of their making: a longer one is later, as Mastodon's guidelines say."""
    return len(id), id


def made_at(id: str) -> float | None:
    """When a status was made, by its id, in seconds since 1970; None where ids hold no time."""
    number = int(id) if id.isascii() and id.isdigit() else 0
    return (number >> 16) / 1000 if number >= FIRST_SNOWFLAKE else None


def id_before(id: str, seconds: float) -> str:
    """An id so many seconds before another; the same where ids hold no time."""
    made = made_at(id)
    return id if made is None else str(max(0, round((made - seconds) * 1000)) << 16)


def status_identity(status: bytes) -> str | None:
    """The id of a status; None where there is none to rely on."""
    try:
        found = str(STATUS.decode(status).id)
    except (msgspec.MsgspecError, RecursionError):
        return None
    return found if IDENTITY.fullmatch(found) else None


def event_value(name: str, data: bytes) -> bytes:
    """A server-sent event as one JSON object; a payload that is none stays the text that it is."""
    if name not in WRITTEN or status_identity(data) is None:
        data = msgspec.json.encode(data.decode("utf-8", "replace"))
    return b'{"event":%b,"payload":%b}' % (msgspec.json.encode(name), data)


class Happened(NamedTuple):
    """An event of a stream: its name, what it is about, and the whole as it goes to the topic."""

    name: str
    data: bytes
    value: bytes


class Newest:
    """The latest id that was handed on, and which ids were of late: no status comes twice."""

    def __init__(self) -> None:
        self.id: str | None = None
        self._seen: OrderedDict[str, None] = OrderedDict()
        self._last: deque[tuple[float, str]] = deque(maxlen=PAGE)

    @property
    def cursor(self) -> str | None:
        """Where to go on from: the latest id; where ids hold no time, the lowest of the last page.

        A later status may have a lower id, and may be under way when the process dies.
        """
        if self.id is None or made_at(self.id) is not None:
            return self.id
        since = monotonic() - LATE_S
        return min((id for at, id in self._last if at > since), key=order, default=self.id)

    def raise_to(self, id: str) -> None:
        """Go on from this id, unless a later one is known."""
        if self.id is None or order(id) > order(self.id):
            self.id = id

    def note(self) -> list[Frame]:
        """No post, but how far it is, if that is known."""
        return [Frame(b"", None, self.cursor, made_at(self.id))] if self.id else []

    def status(self, value: bytes, id: str) -> Frame | None:
        """The frame of a new status; None if it was handed on before."""
        if id in self._seen:
            return None
        self._seen[id] = None
        if len(self._seen) > REMEMBERED:
            self._seen.popitem(last=False)
        self._last.append((monotonic(), id))
        self.raise_to(id)
        return Frame(value, id.encode(), self.cursor, made_at(id))

    def event(self, told: Happened) -> Frame | None:
        """The frame of an event; None for one that is no post's, or was handed on before."""
        if told.name == DELETED:
            gone = told.data.decode("utf-8", "replace").strip()
            key = gone.encode() if IDENTITY.fullmatch(gone) else None
            return Frame(told.value, key, self.cursor)
        if told.name not in WRITTEN:
            return None
        id = status_identity(told.data)
        if id is not None and told.name == "update":
            return self.status(told.value, id)
        return Frame(told.value, None if id is None else id.encode(), self.cursor)
