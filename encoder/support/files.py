"""Atomic writes, bounded reads of regular files, and private folders.

Cached files are executed or trusted, so they must be private: owned by this user or root, and not
writable by group or others.
"""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path

from encoder.errors import InputError


def require_path(name: str, path: object) -> Path:
    """Raise InputError for what is no path, named in the message."""
    if not isinstance(path, str | Path):
        raise InputError(f"{name}: a {type(path).__name__} was given; give a path")
    if "\0" in str(path):
        raise InputError(f"{name}: {str(path)!r} holds a null character; give a path without one")
    return Path(path)


@contextmanager
def replacing(path: Path, mode: int = 0o666, *, durable: bool = True) -> Iterator[BufferedWriter]:
    """Open a file that replaces the old one when the block ends without an error.

    The file is flushed to disk unless `durable` is false, which is faster. A device or a pipe is
    refused.
    """
    with suppress(OSError):  # it does not exist, or the error comes when the new file is opened
        kind = path.stat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISDIR(kind)):
            raise InputError(
                f"{path}: is no regular file, and would be replaced by one; name another"
            )
    new = path.parent / f".newsift-{secrets.token_hex(8)}"
    try:
        file = open(  # noqa: SIM115 - closed below
            new, "xb", opener=lambda name, flags: os.open(name, flags, mode)
        )
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        with file:
            yield file
            file.flush()
            if durable:
                os.fsync(file.fileno())
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def write_atomically(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Replace the file in one step; after an error the old file is unchanged."""
    try:
        with replacing(path, mode) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file; raise BlockingIOError if another process holds it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def read_regular(path: Path, most: int) -> bytes:
    """Read a file; raise OSError if it is larger than `most` or is not a regular file."""
    with open(path, "rb", opener=without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "no regular file, but a pipe or a device", str(path))
        if facts.st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
        return file.read(facts.st_size)


def without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe without a writer does not block."""
    return os.open(path, flags | os.O_NONBLOCK)


def cache_root() -> Path:
    """The folder for data that can be rebuilt: NEWSIFT_CACHE, else the user's cache folder."""
    path = os.environ.get("NEWSIFT_CACHE")
    if path:
        return Path(path)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "newsift"


def state_folder() -> Path:
    """The folder for data that must not be lost: NEWSIFT_STATE, else the user's state folder."""
    if path := os.environ.get("NEWSIFT_STATE"):
        return Path(path)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "newsift"


def private_folder(path: Path) -> Path:
    """Create a folder if necessary; raise InputError if others can change its content."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    real = path.resolve(strict=True)
    for outer in real.parents:
        refuse_public(outer, outer.stat(), replaceable=False)
    refuse_public(real, real.stat())
    return real


def refuse_public(path: Path, facts: os.stat_result, *, replaceable: bool = True) -> None:
    """Raise InputError if others own the path or can write to it.

    With `replaceable=False`, a parent folder is accepted if it is sticky, or writable by this
    process's own group only.
    """
    if facts.st_uid not in (os.geteuid(), 0):
        raise InputError(f"{path}: belongs to another user")
    writers = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not replaceable and facts.st_gid == os.getegid():
        writers &= stat.S_IWOTH
    if writers and (replaceable or not facts.st_mode & stat.S_ISVTX):
        raise InputError(f"{path}: others can write to it")


def refuse_public_content(folder: Path) -> None:
    """Raise InputError if a folder contains a link, a file of others, or one they can write."""
    with os.scandir(folder) as entries:
        for entry in entries:
            try:
                facts = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # another process has renamed or removed it
            refuse_public(Path(entry.path), facts)
            if stat.S_ISDIR(facts.st_mode):
                refuse_public_content(Path(entry.path))
            elif not stat.S_ISREG(facts.st_mode):
                raise InputError(f"{entry.path}: is not a regular file")
