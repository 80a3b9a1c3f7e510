"""Large arrays that all processes of a host share: files in the private cache, mapped into memory.

A file is believed when nobody else can write it and its bytes have the digest at its end; else the
array is made again. It is never written to, only replaced, as who maps it would notice.
"""

import hashlib
import mmap
import os
import stat
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from math import prod
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from encoder.errors import InputError
from encoder.support.files import refuse_public, replacing
from encoder.support.jit_cache import FOLDER
from encoder.support.readonly import frozen
from encoder.support.threads import available_cpus

T = TypeVar("T", bound=np.generic)
LEAST = 2**20  # bytes; a smaller array is not worth a file
CHUNK = 2**24
DIGEST_BYTES = 32
KEPT = 9  # arrays; a model has two
ABANDONED_S = 3600


def shared(
    name: str, kind: type[T], shape: tuple[int, ...], make: Callable[[], NDArray[T]]
) -> NDArray[T]:
    """The read-only array that `make` makes: out of the cache where it is kept there."""
    size = prod(shape) * np.dtype(kind).itemsize
    if FOLDER is None or size < LEAST:
        return frozen(make())
    file = FOLDER / f"{name}.array"
    with suppress(OSError, InputError):
        return np.frombuffer(_mapped(file, size), kind, prod(shape)).reshape(shape)
    made = frozen(np.ascontiguousarray(make()))
    with suppress(OSError, InputError):
        _remove_old(FOLDER)
        with replacing(file, 0o600, durable=False) as new:
            new.write(made.data)
            new.write(_digest(made.data))
        return np.frombuffer(_mapped(file, size), kind, prod(shape)).reshape(shape)
    return made


def _mapped(file: Path, size: int) -> mmap.mmap:
    """A file of so many bytes and their digest; refused where it is not whole, or not our own."""
    handle = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(handle)
        refuse_public(file, found)
        if not stat.S_ISREG(found.st_mode) or found.st_size != size + DIGEST_BYTES:
            raise InputError(f"{file}: is no file of {size} bytes and their digest")
        content = mmap.mmap(handle, found.st_size, prot=mmap.PROT_READ)
    finally:
        os.close(handle)
    if _digest(memoryview(content)[:size]) != content[size:]:
        raise InputError(f"{file}: is damaged")
    with suppress(OSError):
        os.utime(file)
    return content


def _digest(content: memoryview) -> bytes:
    """The digest of the digests of its parts, which several threads work out."""
    flat = content.cast("B")
    parts = (flat[at : at + CHUNK] for at in range(0, len(flat), CHUNK))
    with ThreadPoolExecutor(available_cpus()) as pool:
        each = pool.map(lambda part: hashlib.sha256(part).digest(), parts)
        return hashlib.sha256(b"".join(each)).digest()


def _remove_old(folder: Path) -> None:
    """Remove all arrays but the newest, and what was begun and left; who maps one keeps it."""
    dated = sorted(((path.stat().st_mtime, path) for path in folder.glob("*.array")), reverse=True)
    for _, path in dated[KEPT - 1 :]:
        path.unlink(missing_ok=True)
    for path in folder.glob(".newsift-*"):
        if time.time() - path.stat().st_mtime > ABANDONED_S:
            path.unlink(missing_ok=True)
