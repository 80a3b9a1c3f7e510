"""Files written whole or not at all."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from encoder.errors import InputError


@contextmanager
def replacing(path: Path) -> Iterator[IO[bytes]]:
    """A file to write that takes the place of the old one only when all went well."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    new = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        new.chmod(0o666 & ~_umask())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Put the content in place of the file in one step; a failure leaves the old file untouched."""
    try:
        with replacing(path) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
