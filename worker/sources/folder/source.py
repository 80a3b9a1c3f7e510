"""A folder that posts come from: each file once, when it is whole, in the order of their age."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import ClientSession

from encoder.errors import InputError
from worker.files.find import SUFFIXES
from worker.files.messages import FileMessage
from worker.posts.outcome import Rejected
from worker.sources.backoff import Backoff
from worker.sources.folder.find import FoundFile, Settling, found_in
from worker.sources.folder.ledger import ENTIRE, BegunFile, FileLedger, Place
from worker.sources.frame import Frame, Mark
from worker.sources.source import Arrivals, EnoughError, LostError

LOOK_EVERY_S = 2.0
SHARE_LOOKING = 0.1  # of the time at most, however many files there are
FRAMES = 500  # that are handed on together
FILES = 1000  # that are begun together
MOST_TOLD = 10_000  # things; what is told after that may have been told before
Reader = Callable[[Path], Iterable[Sequence[FileMessage]]]
log = logging.getLogger("newsift.collect")


@dataclass
class Folder:
    """A folder, or a pattern of files, watched; `once` until all that is there has been sent."""

    place: str
    read: Reader
    ledger: FileLedger
    once: bool = False
    settling: Settling = field(default_factory=Settling)
    look_every: float = LOOK_EVERY_S
    name: str = "files"
    counts: Counter[str] = field(default_factory=Counter)
    _told: set[str] = field(default_factory=set)
    _pause: float = 0.0
    _left: bool = False

    def backoff(self, lost: LostError) -> Backoff:
        """A folder never turns anybody away."""
        return Backoff(self.look_every, self.look_every)

    async def arrivals(self, session: ClientSession, mark: Mark | None) -> Arrivals:
        """What the files hold, from the mark on; between two looks nothing."""
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
            self._left = True  # for the thread, which nobody else can stop
        raise EnoughError

    def _steps(self) -> Iterator[list[Frame]]:
        """The frames of the files, some at a time; none when all are read that are whole."""
        while True:
            began = time.monotonic()
            files = found_in(self.place, SUFFIXES)
            whole, awaited = self._whole(files or [])
            if files is not None:
                self.ledger.prune(files)
            self._pause = max(self.look_every, (time.monotonic() - began) / SHARE_LOOKING)
            if files is None:
                self._tell(self.place, f"{self.place}: is not there; it is waited for")
            else:
                self._told.discard(self.place)
                yield from _together(self._pieces(files, whole))
            if self.once and not awaited:
                return
            if not whole:
                yield []

    def _whole(self, files: list[FoundFile]) -> tuple[list[FoundFile], bool]:
        """The files to send, and whether others are still being written."""
        fresh = [file for file in files if self._is_new(file)]
        return self.settling.whole(fresh, time.time(), time.monotonic())

    def _is_new(self, file: FoundFile) -> bool:
        if self.ledger.known(file) is not None:
            return False
        if self.ledger.changed(file) is None:
            return True
        told = f"{file.name}: was written to after it was sent"
        self._tell(file.name, f"{told}; what is new in it goes under another name")
        return False

    def _pieces(self, there: list[FoundFile], whole: list[FoundFile]) -> Iterator[list[Frame]]:
        """The frames of whole files, after those of the one that was under way before."""
        if (begun := self.ledger.resume(there)) is not None:
            line, file, rows = begun
            if file is None:
                self._tell(line.path, f"{line.path}: is gone or changed; {rows:,} rows were sent")
            else:
                yield from self._of(line, file, rows)
        new = [file for file in whole if self.ledger.known(file) is None]
        for at in range(0, len(new), FILES):
            for line, file in self.ledger.begin(new[at : at + FILES]):
                yield from self._of(line, file, 0)

    def _of(self, line: BegunFile, file: FoundFile, sent: int) -> Iterator[list[Frame]]:
        """The frames of one file, from a row on; the last one says that it is done."""
        rows = 0
        try:
            for batch in self.read(Path(file.path)):
                if self._left:
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
        yield [Frame(b"", None, str(Place(line.number, ENTIRE)))]

    def _frame(self, message: FileMessage, place: Place) -> Iterator[Frame]:
        """A row on its way, or none: what no worker could read is told of and counted."""
        if isinstance(message.found, Rejected):
            self.counts["bad rows"] += 1
            why = f"{message.found.reason} ({message.found.detail})"
            self._tell(f"{message.topic} {message.found.reason}",
                       f"{message.topic} {message.place}: not sent: {why}")  # fmt: skip
        elif message.value:
            yield Frame(message.value, message.key, str(place))

    def _tell(self, what: str, said: str) -> None:
        """Say something of a file once."""
        if what not in self._told:
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told.add(what)
            log.warning("%s", said)


def _together(pieces: Iterator[list[Frame]]) -> Iterator[list[Frame]]:
    """The frames of many small files together."""
    frames: list[Frame] = []
    for piece in pieces:
        frames += piece
        if len(frames) >= FRAMES:
            yield frames
            frames = []
    if frames:
        yield frames
