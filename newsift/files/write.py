"""Output files, which are replaced completely or not at all; devices and pipes are written to."""

import gzip
import io
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any, TypeVar

import zstandard

from encoder.errors import InputError
from encoder.support.files import replacing
from newsift.files.read import DASH
from worker.errors import OutputError

T = TypeVar("T")
Guard = Callable[[], AbstractContextManager[object]]
Compressor = Callable[[IO[bytes]], AbstractContextManager[Any]]

NEW_FILE_MODE = 0o666
COMPRESSORS: Mapping[str, Compressor] = {
    ".gz": lambda file: gzip.GzipFile("", "wb", fileobj=file, mtime=0),
    ".zst": lambda file: zstandard.ZstdCompressor().stream_writer(file, closefd=False),
}


def check_targets(targets: Mapping[str, Path], sources: Sequence[Path]) -> None:
    """Raises InputError for a target that cannot be written, is an input, or is named twice."""
    targets = {option: _resolve(path) for option, path in targets.items()}
    for option, path in targets.items():
        if is_replaced(path) and path.is_dir():
            raise InputError(f"{option} {path}: is a folder; name a file in it")
        if is_replaced(path) and not path.parent.is_dir():
            raise InputError(f"{option} {path}: there is no folder {path.parent}; create it first")
        may_be_input = path != DASH and (path.is_file() or path.is_fifo())
        if may_be_input and any(file.exists() and path.samefile(file) for file in sources):
            raise InputError(f"{option} {path}: is an input itself; name another file")
    paths = [path for path in targets.values() if path == DASH or is_replaced(path)]
    if len(set(paths)) < len(paths):
        raise InputError(f"{' and '.join(targets)}: are the same file; name two files")


def is_replaced(path: Path) -> bool:
    """Whether it is a regular file or may become one; devices and pipes are not."""
    return path != DASH and (not path.exists() or path.is_file() or path.is_dir())


def is_terminal(out: IO[bytes]) -> bool:
    return (sys.stdout if out is sys.stdout.buffer else out).isatty()


def open_output(path: Path) -> AbstractContextManager[IO[bytes]]:
    """The file is replaced after success and after Ctrl-C, not after an error."""
    return end_on_interrupt(open_target(path))


@contextmanager
def end_on_interrupt(inner: AbstractContextManager[T], guard: Guard = nullcontext) -> Iterator[T]:
    """After Ctrl-C `inner` ends as after success; then KeyboardInterrupt is raised again.

    `guard` protects the end of `inner` from a second Ctrl-C.
    """
    interrupt = None
    with ExitStack() as guards, inner as resource:
        try:
            yield resource
        except KeyboardInterrupt as error:
            interrupt = error
        guards.enter_context(guard())
    if interrupt is not None:
        raise interrupt


@contextmanager
def open_target(path: Path) -> Iterator[IO[bytes]]:
    """The file is replaced after success, and compressed if its ending says so."""
    if path == DASH:
        yield sys.stdout.buffer
        return
    pack = COMPRESSORS.get(path.suffix.lower(), nullcontext)
    with (
        _raw(_resolve(path)) as raw,
        io.BufferedWriter(_NamedFile(raw, path)) as file,
        pack(file) as out,
    ):
        yield out


class _NamedFile(io.RawIOBase):
    """A file whose errors name it, and which knows its position even in a pipe."""

    def __init__(self, file: io.FileIO, path: Path) -> None:
        self.name = file.name
        self._file, self._path, self._position = file, path, 0

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._file.isatty()

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        try:
            count = self._file.write(data)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputError(f"{self._path}: cannot be written ({error.strerror})") from error
        self._position += count or 0
        return count or 0


def _resolve(path: Path) -> Path:
    """Follow links, except to a device or a pipe."""
    if not is_replaced(path):
        return path
    try:
        target = path.resolve()
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be written ({error}); name another") from error
    if target.is_symlink():  # from Python 3.13 on, links in a circle raise no error
        raise InputError(f"{path}: cannot be written (links in a circle); name another")
    return target


@contextmanager
def _raw(path: Path) -> Iterator[io.FileIO]:
    if is_replaced(path):
        mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW_FILE_MODE
        with replacing(path, mode) as new:
            yield new.raw  # type: ignore[misc]  # it is a FileIO
        return
    try:
        device = path.open("wb", buffering=0)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    with device:
        yield device
