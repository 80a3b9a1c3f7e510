"""A folder as a source of posts: each file once, when it is complete, oldest first."""

import asyncio
import glob
import hashlib
import logging
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import msgspec
from aiohttp import ClientSession

from encoder.errors import InputError
from encoder.support.files import write_atomically
from newsift.collect.source import (
    Arrivals,
    Backoff,
    EnoughError,
    LostError,
    SourceFrame,
    SourceMark,
)
from newsift.files.messages import FileMessage
from newsift.files.read import files_inside, glob_files
from worker.errors import RunError
from worker.posts.outcome import Rejected

SETTLED_S = 5.0  # without a change, after which a file is complete


@dataclass(frozen=True, slots=True)
class FileVersion:
    path: str
    device: int
    inode: int
    size: int
    changed: int  # nanoseconds since 1970

    @property
    def name(self) -> str:
        """The path as text, whatever its encoding."""
        return self.path.encode("utf-8", "backslashreplace").decode()


def scan_folder(place: str) -> list[FileVersion] | None:
    """The files of a folder or pattern, each once, oldest first; None if it does not exist."""
    if Path(place).is_dir():
        paths = files_inside(place)
    elif glob.has_magic(place):
        paths = glob_files(place)
    else:
        return None
    files = [file for path in paths if (file := _file(path)) is not None]
    files.sort(key=lambda file: (file.changed, file.path))
    by_inode: dict[tuple[int, int], FileVersion] = {}
    for file in files:
        by_inode.setdefault((file.device, file.inode), file)
    return list(by_inode.values())


def _file(path: str) -> FileVersion | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a hundred thousand of them
    except OSError:
        return None  # it is gone since, or cannot be seen
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileVersion(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class Settling:
    """Which files are complete: nobody has written to them for a while."""

    def __init__(self, seconds: float = SETTLED_S) -> None:
        self._seconds = seconds
        self._growing: dict[str, tuple[FileVersion, float]] = {}

    def whole(
        self, files: list[FileVersion], now: float, clock: float
    ) -> tuple[list[FileVersion], bool]:
        """The complete files, and whether there are others.

        `now` is the time of day, `clock` one that is never set.
        """
        before, self._growing = self._growing, {}
        done = []
        for file in files:
            was, since = before.get(file.path, (file, clock))
            since = since if was == file else clock
            old = now - file.changed / 1e9 >= self._seconds
            if old or clock - since >= self._seconds:
                done.append(file)
            else:
                self._growing[file.path] = file, since
        return done, bool(self._growing)


HEAD = 2**16  # bytes that identify a file whose folder was remounted
MAX_STATE_LINES = 300_000  # files that are remembered
ENTIRE = -1


class LedgerEntry(msgspec.Struct, array_like=True):
    number: int
    path: str
    device: int
    inode: int
    size: int
    changed: int
    head: str  # digest of its first bytes
    is_rejected: bool = False  # it was not understood

    def is_same(self, file: FileVersion) -> bool:
        """Whether it is the same file, possibly moved or in a remounted folder."""
        if (file.size, file.changed) != (self.size, self.changed):
            return False
        if (file.device, file.inode) == (self.device, self.inode):
            return True
        return file.name == self.path and digest_of_head(file.path) == self.head


@dataclass(frozen=True, slots=True)
class Place:
    """The position in all files: a number of rows of the file with this number."""

    number: int
    rows: int

    @classmethod
    def read(cls, cursor: object) -> Self:
        try:
            number, rows = str(cursor).split(":")
            return cls(int(number), int(rows))
        except ValueError:
            raise InputError(f"--state: the cursor {cursor!r} is of no folder") from None

    def __str__(self) -> str:
        return f"{self.number}:{self.rows}"


LINES = msgspec.json.Decoder(LedgerEntry)
ENCODER = msgspec.json.Encoder()


class FileLedger:
    """Which files were started, in order. With the cursor it tells the position.

    A line for each file is on disk before its first post is sent. The cursor names a line and how
    many rows of its file are acknowledged; all lines before it are done.
    """

    def __init__(self, file: Path, persistent: bool = True) -> None:
        self._file, self._persistent = file, persistent
        self._lines: dict[int, LedgerEntry] = {}  # by number
        self._by_path: dict[str, LedgerEntry] = {}
        self._by_inode: dict[tuple[int, int], LedgerEntry] = {}
        self._next = 1
        self._under_way: tuple[LedgerEntry, int] | None = None  # and how many of its rows are sent

    def open(self, place: Place | None) -> None:
        """Load the files that were sent; those after the place are started again."""
        if place is not None:
            self._next = place.number + 1
            for line in _read(self._file):
                if line.number == place.number and place.rows != ENTIRE:
                    self._under_way = line, place.rows
                elif line.number <= place.number:
                    self._index(line)
        self._rewrite()

    def begin(self, files: Iterable[FileVersion]) -> list[tuple[LedgerEntry, FileVersion]]:
        """Note that these files are sent next."""
        entries = []
        for file in files:
            line = LedgerEntry(
                self._next, file.name, file.device, file.inode, file.size, file.changed,
                digest_of_head(file.path),
            )  # fmt: skip
            self._next += 1
            entries.append((line, file))
        self._append([line for line, _ in entries])
        for line, _ in entries:
            self._index(line)
        return entries

    def resume(
        self, files: Iterable[FileVersion]
    ) -> tuple[LedgerEntry, FileVersion | None, int] | None:
        """The unfinished file of the previous run, its version now, and its rows sent."""
        if self._under_way is None:
            return None
        line, rows = self._under_way
        self._under_way = None
        there = next((file for file in files if line.is_same(file)), None)
        if there is not None:
            self._index(line)
        return line, there, rows

    def refuse(self, line: LedgerEntry) -> None:
        """A file that was not understood is tried again when it has changed."""
        line.is_rejected = True
        self._append([line])

    def entry_of(self, file: FileVersion) -> LedgerEntry | None:
        for entry in (self._by_inode.get((file.device, file.inode)), self._by_path.get(file.name)):
            if entry is not None and entry.is_same(file):
                self._move(entry, file)
                return entry
        return None

    def changed(self, file: FileVersion) -> LedgerEntry | None:
        """The entry of a file that was written to after it was sent."""
        entry = self._by_path.get(file.name)
        if entry is None or entry.is_rejected:
            return None
        return entry if (entry.device, entry.inode) == (file.device, file.inode) else None

    def _index(self, line: LedgerEntry) -> None:
        self._lines[line.number] = line
        self._by_path[line.path] = line
        self._by_inode[line.device, line.inode] = line

    def _move(self, line: LedgerEntry, file: FileVersion) -> None:
        if (line.path, line.device, line.inode) == (file.name, file.device, file.inode):
            return
        self._forget(line)
        line.path, line.device, line.inode = file.name, file.device, file.inode
        self._index(line)

    def _forget(self, line: LedgerEntry) -> None:
        del self._lines[line.number]
        if self._by_path.get(line.path) is line:
            del self._by_path[line.path]
        if self._by_inode.get((line.device, line.inode)) is line:
            del self._by_inode[line.device, line.inode]

    def prune(self, files: Iterable[FileVersion]) -> None:
        """Forget deleted files, the oldest first, when there are too many."""
        if len(self._lines) <= MAX_STATE_LINES:
            return
        there = {(file.device, file.inode) for file in files}
        present = {line.number for at, line in self._by_inode.items() if at in there}
        gone = [line for number, line in sorted(self._lines.items()) if number not in present]
        for line in gone[: len(self._lines) - MAX_STATE_LINES // 2]:
            self._forget(line)
        if gone:
            self._rewrite()

    def _append(self, lines: list[LedgerEntry]) -> None:
        if not (self._persistent and lines):
            return
        try:
            with self._file.open("ab") as out:
                out.write(ENCODER.encode_lines(lines))
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            message = f"--state: {self._file} cannot be written ({error.strerror}); make room"
            raise RunError(message) from error

    def _rewrite(self) -> None:
        if not self._persistent:
            return
        entries = sorted(self._lines.values(), key=lambda line: line.number)
        unfinished = [self._under_way[0]] if self._under_way else []
        write_atomically(self._file, ENCODER.encode_lines([*entries, *unfinished]), 0o600)


def digest_of_head(path: str) -> str:
    """Identifies a file by its beginning; "" if it cannot be read."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.sha256(file.read(HEAD)).hexdigest()[:16]
    except OSError:
        return ""


def _read(file: Path) -> list[LedgerEntry]:
    """A last line that a crash has cut off is ignored."""
    try:
        rows = file.read_bytes().split(b"\n")
    except OSError as error:
        raise InputError(
            f"--state: {file} cannot be read ({error.strerror}), and says which files were sent; "
            "delete the state too, to send all of them"
        ) from error
    entries: dict[int, LedgerEntry] = {}
    for row in rows[:-1]:
        try:
            line = LINES.decode(row)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            continue
        entries[line.number] = line
    return [entries[number] for number in sorted(entries)]


LOOK_EVERY_S = 2.0
SHARE_LOOKING = 0.1  # of the time at most
FRAMES = 500  # of small files, in one list
FILES = 1000  # in one write to the ledger
MAX_WARNED = 10_000  # then a warning may be repeated
Reader = Callable[[Path], Iterable[Sequence[FileMessage]]]
log = logging.getLogger("newsift.collect")


@dataclass
class Folder:
    """Watches a folder or pattern; with `once` it ends when all files are sent."""

    place: str
    read: Reader
    ledger: FileLedger
    once: bool = False
    settling: Settling = field(default_factory=Settling)
    look_every: float = LOOK_EVERY_S
    name: str = "files"
    counts: Counter[str] = field(default_factory=Counter)
    _warned: set[str] = field(default_factory=set)
    _pause: float = 0.0
    _closed: bool = False

    def backoff(self, lost: LostError) -> Backoff:
        """A folder refuses nobody."""
        return Backoff(self.look_every, self.look_every)

    async def arrivals(self, session: ClientSession, mark: SourceMark | None) -> Arrivals:
        """The rows of the files since the mark."""
        if mark is not None and mark.place != self.place:
            raise InputError(
                f"--state: is of the folder {mark.place!r}; give each folder a file of its own"
            )
        place = None if mark is None else Place.read(mark.cursor)
        await asyncio.to_thread(self.ledger.open, place)
        yield ()
        steps = self._steps()
        try:
            while (frames := await asyncio.to_thread(next, steps, None)) is not None:
                if frames:
                    yield frames
                else:
                    await asyncio.sleep(self._pause)
        finally:
            self._closed = True  # stops the thread
        raise EnoughError

    def _steps(self) -> Iterator[list[SourceFrame]]:
        """Lists of frames; an empty list means that no complete file is left."""
        while True:
            began = time.monotonic()
            files = scan_folder(self.place)
            new = [file for file in files or [] if self._is_new(file)]
            whole, awaited = self.settling.whole(new, time.time(), time.monotonic())
            if files is not None:
                self.ledger.prune(files)
            self._pause = max(self.look_every, (time.monotonic() - began) / SHARE_LOOKING)
            if files is None:
                self._warn_once(self.place, f"{self.place}: is not there; it is waited for")
            else:
                self._warned.discard(self.place)
                yield from _group_frames(self._pieces(files, whole))
            if self.once and not awaited:
                return
            if not whole:
                yield []

    def _is_new(self, file: FileVersion) -> bool:
        if self.ledger.entry_of(file) is not None:
            return False
        if self.ledger.changed(file) is None:
            return True
        message = f"{file.name}: was written to after it was sent"
        self._warn_once(file.name, f"{message}; what is new in it goes under another name")
        return False

    def _pieces(
        self, there: list[FileVersion], whole: list[FileVersion]
    ) -> Iterator[list[SourceFrame]]:
        """The frames of the unfinished file, then of the new ones."""
        if (unfinished := self.ledger.resume(there)) is not None:
            line, file, rows = unfinished
            if file is None:
                self._warn_once(
                    line.path, f"{line.path}: is gone or changed; {rows:,} rows were sent"
                )
            else:
                yield from self._of(line, file, rows)
        new = [file for file in whole if self.ledger.entry_of(file) is None]
        for at in range(0, len(new), FILES):
            for line, file in self.ledger.begin(new[at : at + FILES]):
                yield from self._of(line, file, 0)

    def _of(self, line: LedgerEntry, file: FileVersion, sent: int) -> Iterator[list[SourceFrame]]:
        """The frames of one file from a row on; the last one marks the file as done."""
        rows = 0
        try:
            for batch in self.read(Path(file.path)):
                if self._closed:
                    return
                numbered = list(enumerate(batch, rows + 1))
                rows += len(batch)
                yield [frame for row, message in numbered if row > sent
                       for frame in self._frame(message, Place(line.number, row))]  # fmt: skip
        except InputError as error:
            self.counts["not understood"] += 1
            self.ledger.refuse(line)
            where = "" if file.name in str(error) else f"{file.name}: "
            log.error("%s%s; it is left where it is", where, error)
        else:
            self.counts["files"] += 1
        self.counts["rows"] += rows - sent
        yield [SourceFrame(b"", None, str(Place(line.number, ENTIRE)))]

    def _frame(self, message: FileMessage, place: Place) -> Iterator[SourceFrame]:
        """No frame for a row that the worker could not read: it is logged and counted."""
        if isinstance(message.reading, Rejected):
            self.counts["bad rows"] += 1
            why = f"{message.reading.reason} ({message.reading.detail})"
            self._warn_once(f"{message.topic} {message.reading.reason}",
                       f"{message.topic} {message.place}: not sent: {why}")  # fmt: skip
        elif message.value:
            yield SourceFrame(message.value, message.key, str(place))

    def _warn_once(self, what: str, message: str) -> None:
        if what not in self._warned:
            if len(self._warned) >= MAX_WARNED:
                self._warned.clear()
            self._warned.add(what)
            log.warning("%s", message)


def _group_frames(pieces: Iterator[list[SourceFrame]]) -> Iterator[list[SourceFrame]]:
    """Groups the frames of small files."""
    frames: list[SourceFrame] = []
    for piece in pieces:
        frames += piece
        if len(frames) >= FRAMES:
            yield frames
            frames = []
    if frames:
        yield frames
