"""A folder as a source of posts: sends each file once, when it is complete, oldest first."""

import asyncio
import glob
import logging
import os
import stat
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientSession

from encoder.errors import InputError
from newsift.collect.file_ledger import (
    ALL_ROWS,
    FileLedger,
    FilePosition,
    FileVersion,
    LedgerEntry,
    digest_start,
)
from newsift.collect.source import (
    Arrivals,
    Backoff,
    LostError,
    SourceEndedError,
    SourceFrame,
    SourcePosition,
)
from newsift.files.messages import FileMessage
from newsift.files.read import files_in_folder, glob_files
from worker.errors import RunError
from worker.posts.outcome import Rejected

SETTLE_S = 5.0  # a file that did not change for so long is complete
SCAN_INTERVAL_S = 2.0
MAX_SCAN_SHARE = 0.1  # of the time
MIN_GROUP_FRAMES = 500  # frames of small files are grouped to lists of this length
FILES_PER_WRITE = 1000  # files whose entries are added to the ledger at a time
MAX_WARNED = 10_000  # with more, the warnings may be repeated
Reader = Callable[[Path], Iterable[Sequence[FileMessage]]]
log = logging.getLogger("newsift.collect")


def scan_folder(place: str) -> list[FileVersion] | None:
    """The files of a folder or pattern, oldest first; None if it does not exist.

    Of several links to one file, one is returned.
    """
    if Path(place).is_dir():
        paths = files_in_folder(place)
    elif glob.has_magic(place):
        paths = glob_files(place)
    else:
        return None
    files = [file for path in paths if (file := _file(path)) is not None]
    files.sort(key=lambda file: (file.mtime_ns, file.path))
    by_inode: dict[tuple[int, int], FileVersion] = {}
    for file in files:
        by_inode.setdefault((file.device, file.inode), file)
    return list(by_inode.values())


def _file(path: str) -> FileVersion | None:
    try:
        status = os.stat(path)  # noqa: PTH116 - a hundred thousand of them
    except OSError:
        return None  # deleted in between, or not accessible
    if not stat.S_ISREG(status.st_mode):
        return None
    return FileVersion(path, status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class SettleTimer:
    """Tells complete files from those that may still be written to."""

    def __init__(self, seconds: float = SETTLE_S) -> None:
        self._seconds = seconds
        self._pending: dict[str, tuple[FileVersion, float]] = {}

    def complete_files(
        self, files: list[FileVersion], now: float, clock: float
    ) -> tuple[list[FileVersion], bool]:
        """The complete files, and whether there are others.

        `now` is the time of day; `clock` is monotonic.
        """
        before, self._pending = self._pending, {}
        complete = []
        for file in files:
            former, since = before.get(file.path, (file, clock))
            since = since if former == file else clock
            is_old = now - file.mtime_ns / 1e9 >= self._seconds
            if is_old or clock - since >= self._seconds:
                complete.append(file)
            else:
                self._pending[file.path] = file, since
        return complete, bool(self._pending)


@dataclass
class Folder:
    """Watches a folder or pattern; with `once` it ends when all files are sent."""

    place: str
    read: Reader
    ledger: FileLedger
    once: bool = False
    settle_timer: SettleTimer = field(default_factory=SettleTimer)
    scan_interval_s: float = SCAN_INTERVAL_S
    name: str = "files"
    counts: Counter[str] = field(default_factory=Counter)
    was_scanned: bool = False
    _warnings: set[str] = field(default_factory=set)
    _gone: set[FileVersion] = field(default_factory=set)  # unread files, with `once`
    _pause: float = 0.0
    _is_closed: bool = False
    _was_skipped: bool = False  # a file that was written to or moved after the latest scan

    def backoff(self, error: LostError) -> Backoff:
        """Never used, as reading a folder raises no LostError."""
        return Backoff(self.scan_interval_s, self.scan_interval_s)

    async def arrivals(self, session: ClientSession, position: SourcePosition | None) -> Arrivals:
        if position is not None and position.place != self.place:
            raise InputError(
                f"--state: belongs to the folder {position.place!r}; give each folder its own file"
            )
        file_position = None if position is None else FilePosition.parse(position.cursor)
        await asyncio.to_thread(self.ledger.load, file_position)
        yield ()
        steps = self._steps()
        try:
            while (frames := await asyncio.to_thread(next, steps, None)) is not None:
                if frames:
                    yield frames
                else:
                    await asyncio.sleep(self._pause)
        finally:
            self._is_closed = True  # stops the thread
        raise SourceEndedError

    def _steps(self) -> Iterator[list[SourceFrame]]:
        """Lists of frames; an empty list means that no complete file is left."""
        while True:
            began = time.monotonic()
            files, self.was_scanned = scan_folder(self.place), True
            new = [file for file in files or [] if self._is_new(file)]
            complete, has_others = self.settle_timer.complete_files(
                new, time.time(), time.monotonic()
            )
            if files is not None:
                self.ledger.prune(files)
            self._pause = max(self.scan_interval_s, (time.monotonic() - began) / MAX_SCAN_SHARE)
            if files is None and self.once:
                raise RunError(f"{self.place}: is gone; start again when it is there")
            found = {(file.size, file.mtime_ns) for file in files or ()}
            self._gone = {file for file in self._gone if (file.size, file.mtime_ns) not in found}
            if files is None:
                self._warn_once(self.place, f"{self.place}: does not exist; waiting for it")
            else:
                self._warnings.discard(self.place)
                self._was_skipped = False
                yield from _group_frames(self._frames_of_files(files, complete))
            if self.once and not (has_others or self._was_skipped):
                self._refuse_gone()
                return
            if not complete:
                yield []

    def _refuse_gone(self) -> None:
        if self._gone:
            name = min(file.name for file in self._gone)
            raise RunError(f"{name}: is gone, and was not read; start again when it is there")

    def _is_new(self, file: FileVersion) -> bool:
        if self.ledger.find(file) is not None:
            return False
        if not self.ledger.was_changed(file):
            return True
        message = f"{file.name}: was written to after it was sent"
        self._warn_once(file.name, f"{message}; put new posts into a file of another name")
        return False

    def _frames_of_files(
        self, files: list[FileVersion], complete: list[FileVersion]
    ) -> Iterator[list[SourceFrame]]:
        """The frames of the unfinished file, then of the new ones."""
        if (partial := self.ledger.resume(files)) is not None:
            entry, file, rows = partial
            if file is None:
                self._warn_once(
                    entry.path, f"{entry.path}: is gone or changed; {rows:,} rows were sent"
                )
            else:
                yield from self._frames_of_file(entry, file, rows)
        new = [file for file in complete if self.ledger.find(file) is None]
        for start in range(0, len(new), FILES_PER_WRITE):
            for entry, file in self.ledger.add(new[start : start + FILES_PER_WRITE]):
                yield from self._frames_of_file(entry, file, 0)

    def _frames_of_file(
        self, entry: LedgerEntry, file: FileVersion, rows_sent: int
    ) -> Iterator[list[SourceFrame]]:
        """The frames after the rows that were sent; the last one means that the file is done.

        Reading the files before it may have taken hours: a file that was written to or moved since
        the scan is left to the next one.
        """
        done = SourceFrame(b"", None, str(FilePosition(entry.number, ALL_ROWS)))
        current = _file(file.path)
        if current != file:
            self._was_skipped = True
            if current is None and self.once:
                self._gone.add(file)
            self.ledger.leave(entry)
            yield [done]
            return
        rows = 0
        try:
            for batch in self.read(Path(file.path)):
                if self._is_closed:
                    return
                pairs = list(enumerate(batch, rows + 1))
                rows += len(batch)
                yield [frame for row, message in pairs if row > rows_sent
                       for frame in self._frame(message, FilePosition(entry.number, row))
                ]  # fmt: skip
        except InputError as error:
            self.counts["not understood"] += 1
            if _file(file.path) is None or not digest_start(file.path):
                self.ledger.leave(entry)
            else:
                self.ledger.reject(entry)
            where = "" if file.name in str(error) else f"{file.name}: "
            log.error("%s%s; the file is left where it is", where, error)
        else:
            self.counts["files"] += 1
        self.counts["rows"] += rows - rows_sent
        yield [done]

    def _frame(self, message: FileMessage, position: FilePosition) -> Iterator[SourceFrame]:
        """No frame for a row that the worker could not read: it is logged and counted."""
        if isinstance(message.reading, Rejected):
            self.counts["bad rows"] += 1
            why = f"{message.reading.reason} ({message.reading.detail})"
            self._warn_once(f"{message.topic} {message.reading.reason}",
                       f"{message.topic} {message.place}: not sent: {why}")  # fmt: skip
        elif message.value:
            yield SourceFrame(message.value, message.key, str(position))

    def _warn_once(self, subject: str, message: str) -> None:
        if subject not in self._warnings:
            if len(self._warnings) >= MAX_WARNED:
                self._warnings.clear()
            self._warnings.add(subject)
            log.warning("%s", message)


def _group_frames(lists: Iterator[list[SourceFrame]]) -> Iterator[list[SourceFrame]]:
    frames: list[SourceFrame] = []
    for part in lists:
        frames += part
        if len(frames) >= MIN_GROUP_FRAMES:
            yield frames
            frames = []
    if frames:
        yield frames
