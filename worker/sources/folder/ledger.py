"""Which files of a folder were begun, in order: with the cursor this says how far it came.

A line a file is appended, and is on the disk, before the first of its posts is sent. The cursor
names a line and how many rows of its file are acknowledged; all lines before it are done.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from encoder.errors import InputError
from encoder.support.files import write_atomically
from worker.errors import RunError
from worker.sources.folder.find import FoundFile

HEAD = 2**16  # bytes by which a file is known again, should its folder be mounted anew
MOST = 300_000  # files that are remembered
ENTIRE = -1


class BegunFile(msgspec.Struct, array_like=True):
    """A file that was begun."""

    number: int
    path: str
    device: int
    inode: int
    size: int
    changed: int
    head: str  # digest of its first bytes
    refused: bool = False  # it was not understood

    def is_same(self, file: FoundFile) -> bool:
        """Whether a file is the one that was begun: moved perhaps, or in a folder mounted anew."""
        if (file.size, file.changed) != (self.size, self.changed):
            return False
        if (file.device, file.inode) == (self.device, self.inode):
            return True
        return file.name == self.path and digest_of_head(file.path) == self.head


@dataclass(frozen=True, slots=True)
class Place:
    """How far all files were sent: so many rows of the file with this number."""

    number: int
    rows: int

    @classmethod
    def read(cls, cursor: object) -> Self:
        """The place that a cursor names."""
        try:
            number, rows = str(cursor).split(":")
            return cls(int(number), int(rows))
        except ValueError:
            raise InputError(f"--state: the cursor {cursor!r} is of no folder") from None

    def __str__(self) -> str:
        return f"{self.number}:{self.rows}"


LINES = msgspec.json.Decoder(BegunFile)
ENCODER = msgspec.json.Encoder()


class FileLedger:
    """The files that were begun, in memory and, where that is kept, in a file beside the state."""

    def __init__(self, file: Path, kept: bool = True) -> None:
        self._file, self._kept = file, kept
        self._lines: dict[int, BegunFile] = {}  # by number
        self._by_path: dict[str, BegunFile] = {}
        self._by_inode: dict[tuple[int, int], BegunFile] = {}
        self._next = 1
        self._under_way: tuple[BegunFile, int] | None = None  # and how many of its rows are sent

    def open(self, place: Place | None) -> None:
        """Take over what was begun, as far as it was sent; what came after is begun again."""
        if place is not None:
            self._next = place.number + 1
            for line in _read(self._file):
                if line.number == place.number and place.rows != ENTIRE:
                    self._under_way = line, place.rows
                elif line.number <= place.number:
                    self._know(line)
        self._rewrite()

    def begin(self, files: Iterable[FoundFile]) -> list[tuple[BegunFile, FoundFile]]:
        """Note that these are sent next, one after the other."""
        begun = []
        for file in files:
            line = BegunFile(
                self._next, file.name, file.device, file.inode, file.size, file.changed,
                digest_of_head(file.path),
            )  # fmt: skip
            self._next += 1
            begun.append((line, file))
        self._append([line for line, _ in begun])
        for line, _ in begun:
            self._know(line)
        return begun

    def resume(self, files: Iterable[FoundFile]) -> tuple[BegunFile, FoundFile | None, int] | None:
        """The file that was under way when all ended, as it stands now, and how many rows of it."""
        if self._under_way is None:
            return None
        line, rows = self._under_way
        self._under_way = None
        there = next((file for file in files if line.is_same(file)), None)
        if there is not None:
            self._know(line)
        return line, there, rows

    def refuse(self, line: BegunFile) -> None:
        """Note that a file was not understood: it may be mended, and is then tried again."""
        line.refused = True
        self._append([line])

    def known(self, file: FoundFile) -> BegunFile | None:
        """The line of a file, if it was begun."""
        for found in (self._by_inode.get((file.device, file.inode)), self._by_path.get(file.name)):
            if found is not None and found.is_same(file):
                self._move(found, file)
                return found
        return None

    def changed(self, file: FoundFile) -> BegunFile | None:
        """The line of a file that was written to since it was sent; another of its name is new."""
        found = self._by_path.get(file.name)
        if found is None or found.refused:
            return None
        return found if (found.device, found.inode) == (file.device, file.inode) else None

    def _know(self, line: BegunFile) -> None:
        self._lines[line.number] = line
        self._by_path[line.path] = line
        self._by_inode[line.device, line.inode] = line

    def _move(self, line: BegunFile, file: FoundFile) -> None:
        if (line.path, line.device, line.inode) == (file.name, file.device, file.inode):
            return
        self._forget(line)
        line.path, line.device, line.inode = file.name, file.device, file.inode
        self._know(line)

    def _forget(self, line: BegunFile) -> None:
        del self._lines[line.number]
        if self._by_path.get(line.path) is line:
            del self._by_path[line.path]
        if self._by_inode.get((line.device, line.inode)) is line:
            del self._by_inode[line.device, line.inode]

    def prune(self, files: Iterable[FoundFile]) -> None:
        """Forget the files that are gone, the oldest first, where there are too many by far."""
        if len(self._lines) <= MOST:
            return
        there = {(file.device, file.inode) for file in files}
        kept = {line.number for at, line in self._by_inode.items() if at in there}
        gone = [line for number, line in sorted(self._lines.items()) if number not in kept]
        for line in gone[: len(self._lines) - MOST // 2]:
            self._forget(line)
        if gone:
            self._rewrite()

    def _append(self, lines: list[BegunFile]) -> None:
        if not (self._kept and lines):
            return
        try:
            with self._file.open("ab") as out:
                out.write(ENCODER.encode_lines(lines))
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            said = f"--state: {self._file} cannot be written ({error.strerror}); make room"
            raise RunError(said) from error

    def _rewrite(self) -> None:
        if not self._kept:
            return
        kept = sorted(self._lines.values(), key=lambda line: line.number)
        begun = [self._under_way[0]] if self._under_way else []
        write_atomically(self._file, ENCODER.encode_lines([*kept, *begun]), 0o600)


def digest_of_head(path: str) -> str:
    """By what a file is known again; nothing where it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.sha256(file.read(HEAD)).hexdigest()[:16]
    except OSError:
        return ""


def _read(file: Path) -> list[BegunFile]:
    """The lines of a ledger; what a crash has cut off at its end was not begun."""
    try:
        rows = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(
            f"--state: {file} cannot be read ({error.strerror}), and says which files were sent; "
            "delete the state too, to send all of them"
        ) from error
    found: dict[int, BegunFile] = {}
    for row in rows[:-1]:
        try:
            line = LINES.decode(row)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        found[line.number] = line
    return [found[number] for number in sorted(found)]
