"""Files written whole or not at all."""

import os
import tempfile
from pathlib import Path

from encoder.errors import InputError


def write_atomically(path: Path, content: bytes) -> None:
    """Put the content in place of the file in one step; a failure leaves the old file untouched."""
    try:
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    new = Path(name)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.chmod(0o666 & ~_umask())
        new.replace(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        new.unlink(missing_ok=True)


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
