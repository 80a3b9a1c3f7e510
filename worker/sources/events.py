"""Server-sent events: the lines of a stream as events, in bounded memory.

As https://html.spec.whatwg.org/multipage/server-sent-events.html has it: LF, CR and CRLF end a
line, a line with nothing ends an event, a colon at the start of a line is a comment.
"""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass

from worker.sources.lines import LARGEST, LineParser
from worker.sources.source import MALFORMED, LostError


@dataclass(frozen=True, slots=True)
class SentEvent:
    """One event; a comment, such as a heartbeat, is one without data and with no name."""

    name: str
    data: bytes


class EventParser:
    """Takes bytes as they come, and gives the events that they complete."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest, self._lines = largest, LineParser(largest)
        self._skip_lf = False  # the last line ended with CR: an LF would be of the same end
        self._name, self._data = b"", list[bytes]()
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[SentEvent]:
        """The events, and comments, that end in these bytes."""
        if self._skip_lf and chunk:
            chunk, self._skip_lf = chunk.removeprefix(b"\n"), False
        if not chunk:
            return
        self._skip_lf = chunk.endswith(b"\r")
        for line in self._lines.feed(chunk.replace(b"\r\n", b"\n").replace(b"\r", b"\n")):
            if not line:
                yield from self._event()
            elif line.startswith(b":"):
                yield SentEvent("", b"")
            else:
                self._add(line)

    def _add(self, line: bytes) -> None:
        self._size += len(line) + 1
        if self._size > self._largest:
            raise LostError(MALFORMED, f"an event has more than {self._largest:,} bytes")
        field, _, value = line.partition(b":")
        if field == b"event":
            self._name = value.removeprefix(b" ")
        elif field == b"data":
            self._data.append(value.removeprefix(b" "))

    def _event(self) -> Iterator[SentEvent]:
        name, data = self._name, b"\n".join(self._data)
        had = bool(self._data)
        self._name, self._data, self._size = b"", [], 0
        if had:
            yield SentEvent(name.decode("utf-8", "replace") or "message", data)


async def sent_events(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[SentEvent]]:
    """The events of a stream, those together that came together."""
    parser = EventParser()
    async for chunk in chunks:
        if found := list(parser.feed(chunk)):
            yield found
