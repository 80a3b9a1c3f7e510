"""Rows of files as messages of a topic: what the worker's own pipeline takes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from worker.config import Limits
from worker.files.oddities import Oddities, text_id
from worker.files.read import input_name
from worker.posts.checks import rejected
from worker.posts.outcome import PassedOver, Post, Reading, Reason
from worker.posts.read import read_post
from worker.posts.times import milliseconds

Columns = Mapping[str, str]
OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


class FormatError(ValueError):
    """A file that is not understood: what is wrong with it, the remedy, and perhaps where."""

    def __init__(self, told: str, place: str = "") -> None:
        super().__init__(told)
        self._place = place

    def at(self, file: Path) -> str:
        """Where it stands, in which file."""
        return f"{input_name(file)}, {self._place}" if self._place else input_name(file)


@dataclass(frozen=True, slots=True)
class FileMessage:
    """A row of a file in the shape of a Kafka message, and what was found in it.

    Its offset is the number of its line, in an array of its item, from 0. Of a table it keeps all
    columns by their names, as the user has them. Without a value it is nothing to be sent on.
    """

    topic: str
    offset: int
    value: bytes
    raw: bytes
    timestamp: int
    found: Reading
    unit: str = "line"
    columns: Columns | None = None
    partition: int = 0
    key: bytes | None = None
    headers: Sequence[tuple[str, bytes]] = ()

    @property
    def place(self) -> str:
        """Where it stands, as a user counts."""
        return f"{self.unit} {self.offset + 1}"


class Maker:
    """Makes messages of the rows of one input."""

    def __init__(
        self, name: str, limits: Limits, unit: str = "line", oddities: Oddities | None = None
    ) -> None:
        self.name, self.limits, self.unit = name, limits, unit
        self.oddities = oddities or Oddities()

    def post(
        self, value: bytes, number: int, raw: bytes, columns: Columns | None = None
    ) -> FileMessage:
        """A row that is to hold a post of any form."""
        found = read_post(value, "auto", self.limits)
        if isinstance(found, Post) and columns is None:
            value, found = self.oddities.corrected(value, found)
        return self.known(found, value, number, raw, columns)

    def known(
        self, found: Reading, value: bytes, number: int, raw: bytes, columns: Columns | None = None
    ) -> FileMessage:
        """A row that was read already."""
        time, key = 0, None
        if isinstance(found, Post):
            time, key = milliseconds(found.created_at), found.id.encode()
        return FileMessage(
            self.name, number - 1, value, raw, time, found, self.unit, columns, key=key
        )

    def bad(
        self, number: int, raw: bytes, detail: str, reason: Reason = Reason.UNKNOWN_FORM
    ) -> FileMessage:
        """A row that is none, and why."""
        return self.known(rejected(reason, detail), b"", number, raw)

    def none(self, why: PassedOver, number: int, raw: bytes) -> FileMessage:
        """A row that is well-formed and no post."""
        return self.known(why, b"", number, raw)


def plain_post(text: str, id: str | None = None, **more: str | float | None) -> bytes:
    """A plain post; without an id it is named by its text."""
    known = {name: part for name, part in more.items() if part not in (None, "")}
    return msgspec.json.encode({"id": id or text_id(text), "text": text} | known)
