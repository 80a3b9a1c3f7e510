"""How far a source was acknowledged, kept in a file that survives whatever ends the process."""

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular, state_folder, write_atomically
from worker.errors import RunError
from worker.posts.times import rfc3339
from worker.sources.frame import Cursor, Gap, Mark

LARGEST = 2**16  # bytes
LOOKS, LOOK_S = 5, 0.02
SCHEMA = "newsift.collect/1"


class Stored(msgspec.Struct, forbid_unknown_fields=False):
    """The content of a state file."""

    schema: str
    source: str
    cursor: Cursor
    place: str
    at: float | None = None
    saved: str = ""
    gaps: int = 0  # since the file was made
    gap_seconds: float = 0.0  # of those whose length is known

    @property
    def mark(self) -> Mark:
        """How far it came."""
        return Mark(self.cursor, self.place, self.at)


STORED = msgspec.json.Decoder(Stored)


def default_state(name: str) -> Path:
    """The state file of a source for which none was named."""
    return state_folder() / f"collect-{name}.json"


class Unkept:
    """How far it came and what is lost for good, kept nowhere: a dry run's, and what others are."""

    def __init__(self, mark: Mark | None) -> None:
        self.mark = mark

    def store(self, mark: Mark) -> None:
        """Keep how far it was acknowledged."""

    def note(self, gap: Gap) -> None:
        """Count posts that are lost for good; kept with the next mark."""


class State(Unkept):
    """The state file of one collector, locked against a second one while it is open."""

    def __init__(self, path: Path, source: str) -> None:
        """`source` is who alone may use it, as in `newsift collect SOURCE`."""
        super().__init__(None)
        self.path, self._source = path, source
        self._gaps, self._gap_seconds = 0, 0.0
        self._lock = -1

    def __enter__(self) -> Self:
        self._lock = locked(self.path)
        try:
            if stored := stored_state(self.path, self._source):
                self.mark = stored.mark
                self._gaps, self._gap_seconds = stored.gaps, stored.gap_seconds
                self._write(stored)  # where that cannot be, nothing is sent again and again
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None,
        _where: TracebackType | None,
    ) -> None:  # fmt: skip
        self.close()

    def close(self) -> None:
        """Let another collector have it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def store(self, mark: Mark) -> None:
        """Keep how far it was acknowledged; it outlives the process and the loss of power."""
        now = rfc3339(round(time.time() * 1000))
        stored = Stored(
            SCHEMA, self._source, mark.cursor, mark.place, mark.at, now,
            self._gaps, self._gap_seconds,
        )  # fmt: skip
        try:
            self._write(stored)
        except InputError as error:  # it could be written before: a full disk, say
            raise RunError(f"{error}, and start again") from error
        self.mark = mark

    def _write(self, stored: Stored) -> None:
        try:
            write_atomically(self.path, msgspec.json.encode(stored) + b"\n", 0o600)
        except InputError as error:
            raise InputError(f"--state: {error}; make room, or give another file") from error

    def note(self, gap: Gap) -> None:
        """Count posts that are lost for good; kept with the next mark."""
        self._gaps += 1
        self._gap_seconds += gap.seconds or 0.0


def stored_state(path: Path, source: str | None = None) -> Stored | None:
    """What a state file says, of this source or of any; nothing where there is no file yet."""
    remedy = "give another, or delete it to begin with what is new"
    try:
        found = STORED.decode(read_regular(path, LARGEST))
    except FileNotFoundError:
        return None
    except (OSError, msgspec.MsgspecError) as error:
        said = getattr(error, "strerror", None) or error
        raise InputError(f"--state: {path} is no state file ({said}); {remedy}") from error
    if found.schema != SCHEMA:
        raise InputError(f"--state: {path} has the schema {found.schema!r}; {remedy}")
    if source is not None and found.source != source:
        raise InputError(f"--state: {path} is of `newsift collect {found.source}`; {remedy}")
    return found


def locked(path: Path) -> int:
    """A lock of its own beside a state file, which is replaced at each store; closed, it ends."""
    beside = path.with_name(f"{path.name}.lock")
    lock = -1
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        _take(lock)
    except BlockingIOError as error:
        os.close(lock)
        raise InputError(
            f"--state: {path} is in use by another command; end that one, or give this one a file "
            "of its own"
        ) from error
    except OSError as error:
        if lock >= 0:
            os.close(lock)
        raise InputError(
            f"--state: {path} cannot be written ({error.strerror}); give a file that can"
        ) from error
    return lock


def _take(lock: int) -> None:
    """Take a lock; whoever only looks whether it is taken has it for a moment."""
    for _ in range(LOOKS):
        with suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        time.sleep(LOOK_S)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
