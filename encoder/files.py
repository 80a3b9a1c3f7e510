"""Files that are written whole or not at all, and read only when they are files."""

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from encoder.errors import InputError


@contextmanager
def replacing(path: Path, mode: int = 0o666) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of the old one only when all went well."""
    new = path.with_name(f".{path.name[:200]}.{secrets.token_hex(8)}")
    try:
        handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Put the content in place of the file in one step; a failure leaves the old file untouched."""
    try:
        with replacing(path, mode) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def is_regular(path: Path) -> bool:
    """Whether there is a file with bytes of its own, and neither a folder, a pipe nor a device."""
    return stat.S_ISREG(path.stat().st_mode)


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a file, at most so many; a pipe, a device or a larger file is refused unread."""
    # Opened so, a pipe that nobody writes to does not hang.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode):
            raise InputError(f"{path}: is no regular file")
        if found.st_size > most:
            raise InputError(f"{path}: holds {found.st_size} bytes, {most} were expected")
        return file.read(found.st_size)
