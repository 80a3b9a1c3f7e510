"""The lines of a stream, however its bytes fall, in bounded memory."""

from collections.abc import Iterator

from worker.sources.source import MALFORMED, LostError

LARGEST = 2**22  # bytes of a line


class LineParser:
    """Takes bytes as they come, and gives the lines that they complete."""

    def __init__(self, largest: int = LARGEST) -> None:
        self._largest, self._size = largest, 0
        self._rest: list[bytes] = []  # of a line whose end has not come

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that end in these bytes."""
        *ended, rest = chunk.split(b"\n")
        for line in ended:
            self._grow(line)
            whole = b"".join(self._rest)
            self._rest, self._size = [], 0
            yield whole
        self._grow(rest)

    def _grow(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._largest:
            raise LostError(MALFORMED, f"a line has more than {self._largest:,} bytes")
        self._rest.append(part)
