"""The acknowledged position of a source, stored in a file."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from encoder.errors import InputError
from encoder.support.files import exclusive, read_regular, state_folder, write_atomically
from newsift.collect.source import Cursor, Gap, SourcePosition
from worker.errors import RunError
from worker.posts.times import rfc3339

MAX_STATE_BYTES = 2**16
LOCK_ATTEMPTS, LOCK_RETRY_S = 6, 0.02
LOCK_SUFFIX = ".lock"
MAX_TIME_S = 1e12  # a file may hold any number; its milliseconds must stay finite
SCHEMA = "newsift.collect/1"


class StateFile(msgspec.Struct):
    schema: str
    source: str
    cursor: Cursor
    place: str
    at: float | None = None
    saved_at: str = ""
    gaps: int = 0  # since the file was created
    gap_seconds: float = 0.0  # of the gaps whose length is known

    @property
    def position(self) -> SourcePosition:
        return SourcePosition(self.cursor, self.place, self.at)


STATE_ERRORS = (OSError, RecursionError, msgspec.MsgspecError)


def _decode(path: Path) -> StateFile:
    """Raises one of STATE_ERRORS."""
    return msgspec.json.decode(read_regular(path, MAX_STATE_BYTES), type=StateFile)


def default_state(name: str) -> Path:
    return state_folder() / f"collect-{name}.json"


class PositionStore:
    """A collector's last position; this one stores nothing, as a dry run needs it."""

    def __init__(self, position: SourcePosition | None) -> None:
        self.position = position

    def store(self, position: SourcePosition) -> None: ...

    def count_gap(self, gap: Gap) -> None:
        """The count is stored with the next position."""


class FileStore(PositionStore):
    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = path, source
        state = read_state(path, source)
        super().__init__(state.position if state else None)
        self._gaps, self._gap_seconds = (state.gaps, state.gap_seconds) if state else (0, 0.0)
        if state:
            self._write(state)  # a file that cannot be written is refused before anything is sent

    def store(self, position: SourcePosition) -> None:
        now = rfc3339(round(time.time() * 1000))
        state = StateFile(
            SCHEMA, self._source, position.cursor, position.place, position.at, now,
            self._gaps, self._gap_seconds,
        )  # fmt: skip
        try:
            self._write(state)
        except InputError as error:  # it could be written at the start, so the command has failed
            raise RunError(f"{error}, then restart the collector") from error
        self.position = position

    def _write(self, state: StateFile) -> None:
        try:
            write_atomically(self._path, msgspec.json.encode(state) + b"\n", 0o600)
        except InputError as error:
            raise InputError(f"--state: {error}; make room, or give another file") from error

    def count_gap(self, gap: Gap) -> None:
        self._gaps += 1
        self._gap_seconds += gap.seconds or 0.0


@contextmanager
def open_state(path: Path, source: str) -> Iterator[FileStore]:
    """The file is locked during the block. Raises InputError for another source's file."""
    with lock_state(path):
        yield FileStore(path, source)


def read_state(path: Path, source: str) -> StateFile | None:
    """None if there is no file yet. Raises InputError for another source's file."""
    remedy = "give another file, or delete this one to start from new posts"
    try:
        state = _decode(path)
    except FileNotFoundError:
        return None
    except STATE_ERRORS as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--state: {path} is not a state file ({reason}); {remedy}") from error
    if state.schema != SCHEMA:
        raise InputError(f"--state: {path} has the schema {state.schema!r}; {remedy}")
    if state.source != source:
        raise InputError(f"--state: {path} belongs to `newsift collect {state.source}`; {remedy}")
    return state


def _enter_lock(stack: ExitStack, path: Path) -> bool:
    """False if another command holds the lock. `newsift status` holds it for a moment."""
    for _ in range(LOCK_ATTEMPTS):
        try:
            stack.enter_context(exclusive(path.with_name(path.name + LOCK_SUFFIX)))
        except BlockingIOError:
            time.sleep(LOCK_RETRY_S)
        else:
            return True
    return False


@contextmanager
def lock_state(path: Path) -> Iterator[None]:
    """Lock a file beside the state file, which itself is replaced at each write."""
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
    """The collectors whose state or lock file is in the state folder, as rows of a report."""
    pattern = default_state("*")
    files = (file for end in ("", LOCK_SUFFIX) for file in pattern.parent.glob(pattern.name + end))
    for name in sorted({file.name.removesuffix(LOCK_SUFFIX) for file in files}):
        file = pattern.parent / name
        try:
            state = _decode(file)
        except STATE_ERRORS:
            state = None
        at = state.at if state else None
        last_post_at = None
        if at is not None:
            last_post_at = rfc3339(round(1000 * max(min(at, MAX_TIME_S), -MAX_TIME_S)))
        yield {
            "source": state.source if state else file.stem.removeprefix("collect-"),
            "running": _is_locked(file.with_name(name + LOCK_SUFFIX)),
            "last_post_at": last_post_at,
            "saved_at": state.saved_at if state else None,
            "gaps": state.gaps if state else 0,
            "gap_seconds": state.gap_seconds if state else 0.0,
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
