"""What `newsift filter` reads: lines of files or of standard input, as messages of a topic."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import msgspec

from encoder.errors import InputError
from worker.cli.rows import LONGEST_LINE, opened
from worker.config import Limits
from worker.posts.read import FORMS, Post, read_post
from worker.posts.times import milliseconds

INPUTS = (*FORMS, "lines")
CHUNK = 2**18
BOM = b"\xef\xbb\xbf"
STDIN = "stdin"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file in the shape of a Kafka message; its offset is its number, from 0."""

    topic: str
    offset: int
    value: bytes
    raw: bytes
    timestamp: int
    partition: int = 0
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()


class Reader:
    """The lines of one input, as many at a time as have arrived; `auto` looks at the first one."""

    def __init__(self, file: Path | None, form: str, limits: Limits) -> None:
        self.name = STDIN if file is None else file.name
        self._file, self._limits = file, limits
        self._is_text = form == "lines"
        self._form = "auto" if form == "lines" else form
        self._undecided = form == "auto"

    def __iter__(self) -> Iterator[list[Line]]:
        number = 0
        with opened(self._file) as stream:
            for rows in rows_as_they_come(stream):
                batch = [self._line(row, i) for i, row in enumerate(rows, number) if row.strip()]
                number += len(rows)
                if batch:
                    yield batch

    def _line(self, raw: bytes, number: int) -> Line:
        if self._undecided:
            self._decide(raw)
        value = self._packed(raw, number) if self._is_text else raw
        post = read_post(value, self._form, self._limits)
        time = milliseconds(post.created_at) if isinstance(post, Post) else 0
        return Line(self.name, number, value, raw, time)

    def _decide(self, raw: bytes) -> None:
        """Take the whole input for text unless its first line begins an object."""
        start = raw.lstrip()
        if start == b"[" or start.startswith((b"[{", b"[ {")):
            raise InputError(
                f"{self.name}: holds a JSON array; write one object a line (jq -c '.[]')"
            )
        self._is_text, self._undecided = not start.startswith(b"{"), False

    def _packed(self, raw: bytes, number: int) -> bytes:
        """A line of text as a plain post; what is no UTF-8 stays as it is, and will be rejected."""
        try:
            return msgspec.json.encode({"id": f"{self.name}:{number + 1}", "text": raw.decode()})
        except UnicodeDecodeError:
            return raw


def rows_as_they_come(stream: BinaryIO) -> Iterator[list[bytes]]:
    """The lines of a stream without their ends, in lists of what one read brought.

    A line that is too long comes cut: long enough to be refused, so that memory stays bounded.
    """
    rest, first = b"", True
    while chunk := _read(stream):
        *rows, rest = (rest + chunk).split(b"\n")
        rest = rest[: LONGEST_LINE + 1]
        if first and rows:
            rows[0], first = rows[0].removeprefix(BOM), False
        yield [row.removesuffix(b"\r") for row in rows]
    if rest:
        yield [rest.removeprefix(BOM) if first else rest]


def _read(stream: BinaryIO) -> bytes:
    try:
        return stream.read1(CHUNK)  # type: ignore[attr-defined,no-any-return]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError("the gzip input is damaged or cut off; pack it anew") from error
    except OSError as error:
        raise InputError(f"the input cannot be read on ({error.strerror})") from error
