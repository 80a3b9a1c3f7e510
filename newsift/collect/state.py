"""The acknowledged position of a source, stored in a file."""

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from encoder.errors import InputError
from encoder.support.files import exclusive, read_regular, state_folder, write_atomically
from newsift.collect.source import Cursor, Gap, SourceMark
from worker.errors import RunError
from worker.posts.times import rfc3339

LARGEST = 2**16  # bytes
TRIES, TRY_S = 6, 0.02
LOCK = ".lock"
LATEST_S = 1e12  # beyond all years
SCHEMA = "newsift.collect/1"


class StateFile(msgspec.Struct, forbid_unknown_fields=False):
    schema: str
    source: str
    cursor: Cursor
    place: str
    at: float | None = None
    saved: str = ""
    gaps: int = 0  # since the file was made
    gap_seconds: float = 0.0  # of those whose length is known

    @property
    def mark(self) -> SourceMark:
        return SourceMark(self.cursor, self.place, self.at)


STATE_FILE = msgspec.json.Decoder(StateFile)


def default_state(name: str) -> Path:
    return state_folder() / f"collect-{name}.json"


class MemoryState:
    """A state that is not stored, for a dry run; base class of `State`."""

    def __init__(self, mark: SourceMark | None) -> None:
        self.mark = mark

    def store(self, mark: SourceMark) -> None: ...

    def note(self, gap: Gap) -> None:
        """Count lost posts; stored with the next mark."""


class State(MemoryState):
    """The state file of one collector."""

    def __init__(self, path: Path, source: str) -> None:
        self._path, self._source = path, source
        stored = read_state(path, source)
        super().__init__(stored.mark if stored else None)
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
            raise RunError(f"{error}, and start again") from error
        self.mark = mark

    def _write(self, stored: StateFile) -> None:
        try:
            write_atomically(self._path, msgspec.json.encode(stored) + b"\n", 0o600)
        except InputError as error:
            raise InputError(f"--state: {error}; make room, or give another file") from error

    def note(self, gap: Gap) -> None:
        self._gaps += 1
        self._gap_seconds += gap.seconds or 0.0


@contextmanager
def open_state(path: Path, source: str) -> Iterator[State]:
    """Locked while the block lasts. `source` is the only source that may use the file."""
    with lock_state(path):
        yield State(path, source)


def read_state(path: Path, source: str | None = None) -> StateFile | None:
    """None if there is no file yet. Raises InputError for another source's file."""
    remedy = "give another, or delete it to begin with what is new"
    try:
        stored = STATE_FILE.decode(read_regular(path, LARGEST))
    except FileNotFoundError:
        return None
    except (OSError, RecursionError, msgspec.MsgspecError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"--state: {path} is no state file ({reason}); {remedy}") from error
    if stored.schema != SCHEMA:
        raise InputError(f"--state: {path} has the schema {stored.schema!r}; {remedy}")
    if source is not None and stored.source != source:
        raise InputError(f"--state: {path} is of `newsift collect {stored.source}`; {remedy}")
    return stored


@contextmanager
def lock_state(path: Path) -> Iterator[None]:
    """Hold a lock file beside the state file, which is replaced at each write."""
    with ExitStack() as stack:
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            for _ in range(TRIES):  # another process may hold it for a moment to test it
                with suppress(BlockingIOError):
                    stack.enter_context(exclusive(path.with_name(path.name + LOCK)))
                    break
                time.sleep(TRY_S)
            else:
                raise InputError(
                    f"--state: {path} is in use by another command; end that one, or give this one "
                    "a file of its own"
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
            stored = STATE_FILE.decode(read_regular(file, LARGEST))
        except (OSError, RecursionError, msgspec.MsgspecError):
            stored = None
        at = stored.at if stored else None
        last_post_at = None
        if at is not None:
            last_post_at = rfc3339(round(1000 * max(min(at, LATEST_S), -LATEST_S)))
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
