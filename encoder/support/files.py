"""Files: written whole or not at all, read only when they are files, kept where nobody else can.

What lies in a cache is run or believed, so it has to be our own: a folder or file is private when
it belongs to us (or to root, who can do anything) and neither group nor others can write to it.
"""

import errno
import fcntl
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedWriter
from pathlib import Path

from encoder.errors import InputError


@contextmanager
def replacing(path: Path, mode: int = 0o666, *, durable: bool = True) -> Iterator[BufferedWriter]:
    """A file to write that takes the place of the old one only when all went well.

    It outlives the loss of power unless `durable` is false: waiting for the disk takes time.
    """
    new = path.parent / f".newsift-{secrets.token_hex(8)}"
    try:
        file = open(  # noqa: SIM115 - it is closed below
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
    """Put the content in place of the file in one step; a failure leaves the old file untouched."""
    try:
        with replacing(path, mode) as file:
            file.write(content)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


@contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Hold a lock file; BlockingIOError where another process holds it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(lock)


def read_regular(path: Path, most: int) -> bytes:
    """The bytes of a file; OSError, unread, where there are more, or it is a pipe or a device."""
    with open(path, "rb", opener=without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise OSError(errno.EINVAL, "no regular file, but a pipe or a device", str(path))
        if facts.st_size > most:
            raise OSError(errno.EFBIG, f"larger than {most} bytes", str(path))
        return file.read(facts.st_size)


def without_waiting(path: str, flags: int) -> int:
    """Open a file; a pipe that nobody writes to would keep us waiting for ever."""
    return os.open(path, flags | os.O_NONBLOCK)


def cache_root() -> Path:
    """The folder for what newsift can rebuild: NEWSIFT_CACHE, else the user's cache folder."""
    named = os.environ.get("NEWSIFT_CACHE")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "newsift"


def state_folder() -> Path:
    """The folder for what must not be lost: NEWSIFT_STATE, else the user's state folder."""
    if named := os.environ.get("NEWSIFT_STATE"):
        return Path(named)
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "newsift"


def private_folder(path: Path) -> Path:
    """The folder, made where there is none; refused where others can change what lies in it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    real = path.resolve(strict=True)
    for outer in real.parents:
        refuse_public(outer, outer.stat(), replaceable=False)
    refuse_public(real, real.stat())
    return real


def refuse_public(path: Path, facts: os.stat_result, *, replaceable: bool = True) -> None:
    """Refuse what others own or can write; of an outer folder, where they can replace what is ours.

    They cannot in a sticky folder; and many a home belongs to a group that its user is alone in.
    """
    if facts.st_uid not in (os.geteuid(), 0):
        raise InputError(f"{path}: belongs to another user")
    writers = facts.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    if not replaceable and facts.st_gid == os.getegid():
        writers &= stat.S_IWOTH
    if writers and (replaceable or not facts.st_mode & stat.S_ISVTX):
        raise InputError(f"{path}: others can write to it")


def refuse_public_content(folder: Path) -> None:
    """Refuse a private folder in which anything is a link, another's, or writable by others."""
    with os.scandir(folder) as entries:
        for entry in entries:
            facts = entry.stat(follow_symlinks=False)
            refuse_public(Path(entry.path), facts)
            if stat.S_ISDIR(facts.st_mode):
                refuse_public_content(Path(entry.path))
            elif not stat.S_ISREG(facts.st_mode):
                raise InputError(f"{entry.path}: is no regular file")
