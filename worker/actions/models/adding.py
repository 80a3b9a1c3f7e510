"""Bring a packed model to this machine, whole or not at all, or take it away."""

import fcntl
import hashlib
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import BinaryIO
from urllib.parse import unquote, urlsplit

from encoder.directory import read_model
from encoder.errors import InputError, ModelError
from encoder.support.files import without_waiting
from encoder.support.named import MODELS, NAME, added_folder
from worker.actions.models.archive import unpack
from worker.actions.models.download import LARGEST, download

STAGED = ".adding-"


def add(source: str, digest: str | None, name: str | None) -> Path:
    """Add the model in a file or behind an address; its directory."""
    web = "://" in source
    if web and digest is None:
        raise InputError(
            f"{source}: needs --digest, the file's SHA-256 as its maker states it "
            "(`newsift models pack` and sha256sum print it)"
        )
    name = _free_name(name or _stem(source, web))
    with _alone() as staging:
        place = added_folder() / name
        if place.exists():
            told = f"`newsift models remove {name}` makes room, --name gives another"
            raise InputError(f"model {name!r}: is there already, in {place}; {told}")
        if web:
            with (staging / "packed").open("xb") as packed:
                download(source, packed)
        with _opened(staging / "packed" if web else Path(source), source) as file:
            _place(file, source, digest, staging / "new", place)
    return place


def remove(name: str) -> None:
    """Take away a model that was added."""
    if (MODELS / name).is_dir() and NAME.fullmatch(name):
        raise InputError(f"model {name!r}: ships with newsift, and stays")
    with _alone() as staging:
        added = sorted(p.name for p in added_folder().iterdir() if NAME.fullmatch(p.name))
        if name not in added:
            known = ", ".join(added) or "none"
            raise InputError(f"model {name!r}: was not added to this machine (added: {known})")
        (added_folder() / name).rename(staging / "gone")


def _place(file: BufferedReader, source: str, digest: str | None, new: Path, place: Path) -> None:
    """Check a packed model, and put it into its place in one step."""
    found = hashlib.file_digest(file, "sha256").hexdigest()
    if digest is not None and found != digest:
        raise ModelError(f"{source}: wrong digest {found}, expected {digest}; nothing was added")
    file.seek(0)
    new.mkdir()
    try:
        unpack(file, new)
        read_model(new)
    except ModelError as error:
        said = str(error).replace(f"{new}/", "").replace(f"{new}: ", "")
        raise ModelError(f"{source}: {said}; nothing was added") from error
    new.rename(place)


def _stem(source: str, web: bool) -> str:
    last = PurePosixPath(unquote(urlsplit(source).path) if web else Path(source).name)
    return last.name.removesuffix(".tar")


def _free_name(name: str) -> str:
    if not NAME.fullmatch(name):
        told = "needs small letters, digits, '.', '_' and '-', at most 64; give one by --name"
        raise InputError(f"model {name!r}: {told}")
    if (MODELS / name).is_dir():
        raise InputError(f"model {name!r}: ships with newsift; give another by --name")
    return name


@contextmanager
def _opened(path: Path, source: str) -> Iterator[BufferedReader]:
    """A packed model to read: a regular file that is not too large."""
    try:
        file = open(path, "rb", opener=without_waiting)  # noqa: SIM115 - it is closed below
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror})") from error
    with file:
        found = os.fstat(file.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > LARGEST:
            told = f"is no regular file of at most {LARGEST / 2**20:g} MiB"
            raise InputError(f"{source}: {told}; `newsift models pack` makes one")
        yield file


@contextmanager
def _alone() -> Iterator[Path]:
    """A folder beside the models to work in, for one command at a time; what one left is swept."""
    folder = added_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / ".lock").open("ab") as lock:
            _take(lock, folder)
            for left in folder.glob(f"{STAGED}*"):
                shutil.rmtree(left, ignore_errors=True)
            with TemporaryDirectory(dir=folder, prefix=STAGED) as staging:
                yield Path(staging)
    except OSError as error:
        told = f"cannot be written ({error.strerror}); NEWSIFT_STATE names another place"
        raise InputError(f"{folder}: {told}") from error


def _take(lock: BinaryIO, folder: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        told = "another `newsift models add` or `remove` is under way; wait for it"
        raise InputError(f"{folder}: {told}") from error
