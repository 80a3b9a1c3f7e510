"""Which files of a folder were sent, and how far; stored in a file beside the state."""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Self

import msgspec

from encoder.errors import InputError
from encoder.support.files import write_atomically
from worker.errors import RunError

DIGESTED_BYTES = 2**16  # at the start of a file, to recognise it in a remounted folder
MAX_LEDGER_ENTRIES = 300_000
ALL_ROWS = -1


@dataclass(frozen=True, slots=True)
class FileVersion:
    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int  # nanoseconds since 1970

    @property
    def name(self) -> str:
        """The path with the bytes escaped that are not UTF-8."""
        return self.path.encode("utf-8", "backslashreplace").decode()


class LedgerEntry(msgspec.Struct, array_like=True):
    number: int
    path: str
    device: int
    inode: int
    size: int
    mtime_ns: int
    digest: str  # of its first bytes
    is_rejected: bool = False  # it was not understood, or not read

    def is_same(self, file: FileVersion) -> bool:
        """Whether it is the same file, possibly moved or in a remounted folder."""
        if (file.size, file.mtime_ns) != (self.size, self.mtime_ns):
            return False
        if self.is_rejected and not self.digest and digest_start(file.path):
            return False  # it was not there or could not be opened, and now it can
        if (file.device, file.inode) == (self.device, self.inode):
            return True
        return file.name == self.path and digest_start(file.path) == self.digest


class FilePosition(NamedTuple):
    """The cursor of a folder: all files before this one are sent, and so many rows of it."""

    number: int
    rows: int

    @classmethod
    def parse(cls, cursor: object) -> Self:
        try:
            number, rows = str(cursor).split(":")
            return cls(int(number), int(rows))
        except ValueError:
            raise InputError(f"--state: the cursor {cursor!r} belongs to no folder") from None

    def __str__(self) -> str:
        return f"{self.number}:{self.rows}"


ENTRY_DECODER = msgspec.json.Decoder(LedgerEntry)
ENCODER = msgspec.json.Encoder()


class FileLedger:
    """The files that were sent or started, in order.

    The entry of a file is on disk before its first post is sent.
    """

    def __init__(self, file: Path, persistent: bool = True) -> None:
        self._file, self._persistent = file, persistent
        self._entries: dict[int, LedgerEntry] = {}  # by number
        self._by_path: dict[str, LedgerEntry] = {}
        self._by_inode: dict[tuple[int, int], LedgerEntry] = {}
        self._next_number = 1
        self._partial_file: tuple[LedgerEntry, int] | None = None  # and how many rows were sent

    def load(self, position: FilePosition | None) -> None:
        """Load the entries up to the position; later files are sent again."""
        if position is not None:
            self._next_number = position.number + 1
            entries = _read_entries(self._file)
            if not any(entry.number == position.number for entry in entries):
                raise _ledger_error(self._file, f"does not have file {position.number}")
            for entry in entries:
                if entry.number == position.number and position.rows != ALL_ROWS:
                    self._partial_file = entry, position.rows
                elif entry.number <= position.number:
                    self._index(entry)
        self._rewrite()

    def add(self, files: Iterable[FileVersion]) -> list[tuple[LedgerEntry, FileVersion]]:
        pairs = []
        for file in files:
            entry = LedgerEntry(
                self._next_number, file.name, file.device, file.inode, file.size, file.mtime_ns,
                digest_start(file.path),
            )  # fmt: skip
            self._next_number += 1
            pairs.append((entry, file))
        self._append([entry for entry, _ in pairs])
        for entry, _ in pairs:
            self._index(entry)
        return pairs

    def resume(
        self, files: Iterable[FileVersion]
    ) -> tuple[LedgerEntry, FileVersion | None, int] | None:
        """The unfinished file of the previous run, its version now, and its rows sent."""
        if self._partial_file is None:
            return None
        entry, rows = self._partial_file
        self._partial_file = None
        version = next((file for file in files if entry.is_same(file)), None)
        if version is not None:
            self._index(entry)
        return entry, version, rows

    def reject(self, entry: LedgerEntry) -> None:
        """A file that was not read is tried again when it has changed or can be opened."""
        entry.is_rejected = True
        self._append([entry])

    def leave(self, entry: LedgerEntry) -> None:
        """A file that was not there is new when it can be opened, wherever it is then."""
        entry.digest = ""
        self.reject(entry)

    def find(self, file: FileVersion) -> LedgerEntry | None:
        for entry in (self._by_inode.get((file.device, file.inode)), self._by_path.get(file.name)):
            if entry is not None and entry.is_same(file):
                place = file.name, file.device, file.inode
                if (entry.path, entry.device, entry.inode) != place:  # it was moved
                    self._forget(entry)
                    entry.path, entry.device, entry.inode = place
                    self._index(entry)
                return entry
        return None

    def was_changed(self, file: FileVersion) -> bool:
        """Whether a file was written to after it was sent.

        One that begins otherwise, or is shorter, is another file: its name, and with the name a
        free inode, may be taken again.
        """
        entry = self._by_path.get(file.name)
        if entry is None or entry.is_rejected or file.size < entry.size:
            return False
        if (entry.device, entry.inode) != (file.device, file.inode):
            return False
        return digest_start(file.path, entry.size) == entry.digest

    def _index(self, entry: LedgerEntry) -> None:
        self._entries[entry.number] = entry
        self._by_path[entry.path] = entry
        self._by_inode[entry.device, entry.inode] = entry

    def _forget(self, entry: LedgerEntry) -> None:
        del self._entries[entry.number]
        if self._by_path.get(entry.path) is entry:
            del self._by_path[entry.path]
        if self._by_inode.get((entry.device, entry.inode)) is entry:
            del self._by_inode[entry.device, entry.inode]

    def prune(self, files: Iterable[FileVersion]) -> None:
        """Forget deleted files, the oldest first, when there are too many entries."""
        if len(self._entries) <= MAX_LEDGER_ENTRIES:
            return
        inodes = {(file.device, file.inode) for file in files}
        present = {entry.number for inode, entry in self._by_inode.items() if inode in inodes}
        present.add(self._next_number - 1)  # the state may name it
        gone_entries = [entry for number, entry in sorted(self._entries.items())
                   if number not in present]  # fmt: skip
        for entry in gone_entries[: len(self._entries) - MAX_LEDGER_ENTRIES // 2]:
            self._forget(entry)
        if gone_entries:
            self._rewrite()

    def _append(self, entries: list[LedgerEntry]) -> None:
        if not (self._persistent and entries):
            return
        try:
            with self._file.open("ab") as out:
                out.write(ENCODER.encode_lines(entries))
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            message = f"--state: {self._file} cannot be written ({error.strerror}); make room"
            raise RunError(message) from error

    def _rewrite(self) -> None:
        if not self._persistent:
            return
        entries = [self._entries[number] for number in sorted(self._entries)]
        partial = [self._partial_file[0]] if self._partial_file else []
        write_atomically(self._file, ENCODER.encode_lines([*entries, *partial]), 0o600)


def digest_start(path: str, size: int = DIGESTED_BYTES) -> str:
    """The digest of a file's first bytes, at most `size`; "" if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.sha256(file.read(min(size, DIGESTED_BYTES))).hexdigest()[:16]
    except OSError:
        return ""


def _read_entries(file: Path) -> list[LedgerEntry]:
    """A last line that a crash has cut off is ignored."""
    try:
        lines = file.read_bytes().split(b"\n")
    except OSError as error:
        raise _ledger_error(file, f"cannot be read ({error.strerror})") from error
    entries: dict[int, LedgerEntry] = {}
    for number, line in enumerate(lines[:-1], 1):
        try:
            entry = ENTRY_DECODER.decode(line)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _ledger_error(file, f"is damaged (line {number})") from error
        entries[entry.number] = entry
    return [entries[number] for number in sorted(entries)]


def _ledger_error(file: Path, why: str) -> InputError:
    return InputError(
        f"--state: {file} {why}, and says which files were sent; delete the state too, to send "
        "all of them"
    )
