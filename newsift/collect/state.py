"""The acknowledged position of a source, stored in a file."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from encoder.errors import InputError
from encoder.support.files import exclusive, read_regular, state_folder, write_atomically
from newsift.collect.source import Cursor, Gap, SourceMark
from worker.errors import RunError
from worker.posts.times import rfc3339

MAX_STATE_BYTES = 2**16  # bytes
LOCK_ATTEMPTS, LOCK_RETRY_S = 6, 0.02
LOCK = ".lock"
MAX_SECONDS = 1e12  # keeps 1000 * at finite; rfc3339 clips the year
SCHEMA = "newsift.collect/1"


class StateFile(msgspec.Struct):
    schema: str
    source: str
    cursor: Cursor
    place: str
    at: float | None = None
    saved: str = ""
    gaps: int = 0  # since the file was created
    gap_seconds: float = 0.0  # of those whose length is known

    @property
    def mark(self) -> SourceMark:
        return SourceMark(self.cursor, self.place, self.at)


STATE_FILE = msgspec.json.Decoder(StateFile)


STATE_ERRORS = (OSError, RecursionError, msgspec.MsgspecError)


def _decode(path: Path) -> StateFile:
    """Raises one of STATE_ERRORS."""
    return STATE_FILE.decode(read_regular(path, MAX_STATE_BYTES))


def default_state(name: str) -> Path:
    return state_folder() / f"collect-{name}.json"


class MarkStore(Protocol):
    """A collector's state: the mark stored last, and a count of lost posts."""

    mark: SourceMark | None

    def store(self, mark: SourceMark) -> None: ...

    def count_gap(self, gap: Gap) -> None:
        """Count lost posts; stored with the next mark."""


class NullStore:
    """Stores nothing: for a dry run."""

    def __init__(self, mark: SourceMark | None) -> None:
        self.mark = mark

    def store(self, mark: SourceMark) -> None:
        """Ignored."""

    def count_gap(self, gap: Gap) -> None:
        """Ignored."""


class FileStore:
    """The state file of one collector."""

    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = path, source
        stored = read_state(path, source)
        self.mark = stored.mark if stored else None
        self._gaps, self._gap_seconds = (stored.gaps, stored.gap_seconds) if stored else (0, 0.0)
        if stored:
            self._write(stored)  # a file that cannot be written is refused before anything is sent

    def store(self, mark: SourceMark) -> None:
        now = rfc3339(round(time.time() * 1000))
        stored = StateFile(
            SCHEMA, self._source, mark.cursor, mark.place, mark.at, now,
            self._gaps, self._gap_seconds,
        )  # fmt: skip
        try:
            self._write(stored)
        except InputError as error:  # it could be written before: a full disk, say
            raise RunError(f"{error}, then restart the collector") from error
        self.mark = mark

    def _write(self, stored: StateFile) -> None:
        try:
            write_atomically(self._path, msgspec.json.encode(stored) + b"\n", 0o600)
        except InputError as error:
            raise InputError(f"--state: {error}; make room, or give another file") from error

    def count_gap(self, gap: Gap) -> None:
        self._gaps += 1
        self._gap_seconds += gap.seconds or 0.0


@contextmanager
def open_state(path: Path, source: str) -> Iterator[FileStore]:
    """Locked while the block lasts. `source` is the only source that may use the file."""
    with lock_state(path):
        yield FileStore(path, source)


def read_state(path: Path, source: str | None = None) -> StateFile | None:
    """None if there is no file yet. Raises InputError for another source's file."""
    remedy = "give another file, or delete this one to start from new posts"
    try:
        stored = _decode(path)
    except FileNotFoundError:
        return None
    except STATE_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--state: {path} is no state file ({reason}); {remedy}") from error
    if stored.schema != SCHEMA:
        raise InputError(f"--state: {path} has the schema {stored.schema!r}; {remedy}")
    if source is not None and stored.source != source:
        raise InputError(f"--state: {path} belongs to `newsift collect {stored.source}`; {remedy}")
    return stored


def _enter_lock(stack: ExitStack, path: Path) -> bool:
    """False if another command holds the lock; a process that tests it holds it for a moment."""
    for _ in range(LOCK_ATTEMPTS):
        try:
            stack.enter_context(exclusive(path.with_name(path.name + LOCK)))
        except BlockingIOError:
            time.sleep(LOCK_RETRY_S)
        else:
            return True
    return False


@contextmanager
def lock_state(path: Path) -> Iterator[None]:
    """Hold a lock file beside the state file, which is replaced at each write."""
    with ExitStack() as stack:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _enter_lock(stack, path):
                raise InputError(
                    f"--state: {path} is in use by another command; stop that command, "
                    "or give this one its own file"
                )
        except OSError as error:
            raise InputError(
                f"--state: {path} cannot be written ({error.strerror}); give a file that can"
            ) from error
        yield


def list_collectors() -> Iterator[dict[str, Any]]:
    """The collectors with a state in the usual folder, whether they run, and their positions."""
    pattern = default_state("*")
    files = (file for end in ("", LOCK) for file in pattern.parent.glob(pattern.name + end))
    for name in sorted({file.name.removesuffix(LOCK) for file in files}):
        file = pattern.parent / name
        try:
            stored = _decode(file)
        except STATE_ERRORS:
            stored = None
        at = stored.at if stored else None
        last_post_at = None
        if at is not None:
            last_post_at = rfc3339(round(1000 * max(min(at, MAX_SECONDS), -MAX_SECONDS)))
        yield {
            "source": stored.source if stored else file.stem.removeprefix("collect-"),
            "running": _is_locked(file.with_name(name + LOCK)),
            "last_post_at": last_post_at,
            "saved_at": stored.saved if stored else None,
            "gaps": stored.gaps if stored else 0,
            "gap_seconds": stored.gap_seconds if stored else 0.0,
            "state": str(file),
        }


def _is_locked(file: Path) -> bool:
    try:
        lock = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return isinstance(error, BlockingIOError)
    finally:
        os.close(lock)
    return False
