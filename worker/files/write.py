"""Where a command writes: a file, whole or not at all, a device, a pipe, or standard output."""

import gzip
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import IO, cast

from encoder.errors import InputError
from encoder.support.files import replacing
from worker.files.read import DASH

NEW = 0o666  # the mode of a new file, less the umask


def check_targets(targets: Mapping[str, Path], sources: Sequence[Path]) -> None:
    """Refuse, before any work, what cannot be written, is an input, or is named twice."""
    real = {option: _real(path) for option, path in targets.items()}
    for option, path in real.items():
        if path != DASH and _is_file(path):
            _check(option, path, sources)
    named = [path for path in real.values() if path == DASH or _is_file(path)]
    if len(set(named)) < len(named):
        raise InputError(f"{' and '.join(real)}: mean the same; name two files")


@contextmanager
def writing(path: Path) -> Iterator[IO[bytes]]:
    """What is written here takes a file's place when all went well, or Ctrl-C ended it."""
    if path == DASH:
        yield sys.stdout.buffer
        return
    interrupted = None
    with _opened(_real(path)) as file, _packed(path, file) as out:
        try:
            yield out
        except KeyboardInterrupt as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def _real(path: Path) -> Path:
    """The file that a link means; a device or a pipe may have no other name."""
    try:
        return path.resolve() if path != DASH and _is_file(path) else path
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be written ({error}); name another") from error


def _is_file(path: Path) -> bool:
    """Whether there is a file of this name, or could be; not what is written through."""
    return not path.exists() or path.is_file() or path.is_dir()


def _check(option: str, path: Path, sources: Sequence[Path]) -> None:
    if path.is_dir():
        raise InputError(f"{option} {path}: is a folder; name a file in it")
    if not path.parent.is_dir():
        raise InputError(f"{option} {path}: there is no folder {path.parent}; make it first")
    if any(path.exists() and source.exists() and path.samefile(source) for source in sources):
        raise InputError(f"{option} {path}: is an input itself; name another file")


def _opened(path: Path) -> AbstractContextManager[IO[bytes]]:
    try:
        if not _is_file(path):
            return path.open("wb")
        return replacing(path, stat.S_IMODE(path.stat().st_mode) if path.exists() else NEW)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def _packed(path: Path, file: IO[bytes]) -> AbstractContextManager[IO[bytes]]:
    if path.suffix != ".gz":
        return nullcontext(file)
    return cast(AbstractContextManager[IO[bytes]], gzip.GzipFile("", "wb", fileobj=file, mtime=0))
