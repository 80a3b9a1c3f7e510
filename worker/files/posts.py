"""Posts out of the lines of a file, as messages of a topic, for the worker's own pipeline."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from encoder.errors import InputError
from worker.config import Limits
from worker.files.read import DASH, lines
from worker.posts.read import FORMS, Post, read_post
from worker.posts.times import milliseconds

INPUTS = (*FORMS, "lines")
STDIN = "stdin"


@dataclass(frozen=True, slots=True)
class FileMessage:
    """A row of a file in the shape of a Kafka message; its offset is its number, from 0.

    Of a table it keeps all columns by their names, as the user has them.
    """

    topic: str
    offset: int
    value: bytes
    raw: bytes
    timestamp: int
    partition: int = 0
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()
    columns: Mapping[str, str] | None = None


class FileMessages:
    """The posts of one input, as many at a time as have arrived; `auto` looks at the first line."""

    def __init__(self, file: Path, form: str, limits: Limits) -> None:
        self.name = STDIN if file == DASH else file.name
        self._file, self._limits = file, limits
        self._is_text = form == "lines"
        self._form = "auto" if form == "lines" else form
        self._undecided = form == "auto"

    def __iter__(self) -> Iterator[list[FileMessage]]:
        for first, rows in lines(self._file):
            numbered = enumerate(rows, first)
            if batch := [self._message(row, number) for number, row in numbered if row.strip()]:
                yield batch

    def _message(self, raw: bytes, number: int) -> FileMessage:
        if self._undecided:
            self._decide(raw)
        value = self._packed(raw, number) if self._is_text else raw
        post = read_post(value, self._form, self._limits)
        time = milliseconds(post.created_at) if isinstance(post, Post) else 0
        return FileMessage(self.name, number - 1, value, raw, time)

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
            return msgspec.json.encode({"id": f"{self.name}:{number}", "text": raw.decode()})
        except UnicodeDecodeError:
            return raw
