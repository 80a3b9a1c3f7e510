"""Models that do not ship: packed as one file, downloaded, checked, added and removed."""

import hashlib
import os
import shutil
import stat
import tarfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import BufferedReader
from ipaddress import ip_address
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

from encoder.errors import InputError, ModelError, one_line
from encoder.model_directory import (
    ALL_FILES,
    FILE_BYTES,
    MANIFEST,
    MANIFEST_BYTES,
    read_directory,
    read_manifest,
    read_model,
)
from encoder.support.files import exclusive, read_regular, replacing, without_waiting
from encoder.support.named import CARD, MODELS, NAME, added_folder, card_of
from newsift.operations.messages import ProgressLine
from newsift.web.addresses import literal_address
from newsift.web.client import MAX_REDIRECTS, RequestLimits, parse_web_address, send

MODEL_FILES = {*ALL_FILES, CARD}
TAR_BLOCK_BYTES, EMPTY_TAR_BLOCK = 512, bytes(512)
COPY_STEP_BYTES = 2**20
MAX_MODEL_BYTES = 2**30
MAX_DOWNLOAD_S = 1800.0
REMEDY = "fetch the file by other means and add that"
REQUEST = {"User-Agent": "newsift (models)", "Accept-Encoding": "identity", "Connection": "close"}
STAGING_PREFIX = ".adding-"

Row = dict[str, Any]


def pack(folder: Path, out: Path) -> str:
    """Returns the SHA-256 of the file."""
    read_model(folder)
    _, files = read_directory(folder)
    files = {MANIFEST: read_regular(folder / MANIFEST, MANIFEST_BYTES), **files}
    if card := card_of(folder):
        files[CARD] = card
    digest = hashlib.sha256()
    try:
        with replacing(out) as file:
            for name, content in sorted(files.items()):
                info = tarfile.TarInfo(name)
                info.size = len(content)
                header = info.tobuf(tarfile.USTAR_FORMAT)
                for piece in (header, content, bytes(-len(content) % TAR_BLOCK_BYTES)):
                    digest.update(piece)
                    file.write(piece)
            digest.update(2 * EMPTY_TAR_BLOCK)
            file.write(2 * EMPTY_TAR_BLOCK)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror})") from error
    return digest.hexdigest()


def unpack(file: BinaryIO, into: Path) -> None:
    """Raises on any other content than the files of a model."""
    names: set[str] = set()
    while (block := file.read(TAR_BLOCK_BYTES)) != EMPTY_TAR_BLOCK:
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.TarError, ValueError) as error:
            raise _not_a_model(f"its header {len(names) + 1} cannot be read") from error
        if info.name not in MODEL_FILES or info.name in names or info.type != tarfile.REGTYPE:
            raise _not_a_model(f"it holds {info.name!r}, or holds it twice, or as no regular file")
        if not 0 <= info.size <= FILE_BYTES:
            raise _not_a_model(f"{info.name} would be {info.size} bytes")
        names.add(info.name)
        with (into / info.name).open("xb") as out:
            left = info.size
            while left:
                piece = file.read(min(left, COPY_STEP_BYTES))
                if not piece:
                    raise _not_a_model(f"it ends {left} bytes early in {info.name}")
                out.write(piece)
                left -= len(piece)
            out.flush()
            file.read(-info.size % TAR_BLOCK_BYTES)
            os.fsync(out.fileno())


def _not_a_model(why: str) -> ModelError:
    return ModelError(one_line(f"is not a model as `newsift models pack` packs it: {why}"))


def download(
    url: str, file: BinaryIO, largest: int = MAX_MODEL_BYTES, seconds: float = MAX_DOWNLOAD_S
) -> None:
    """Its digest is checked elsewhere."""
    deadline, secure = time.monotonic() + seconds, False
    progress = ProgressLine()

    def write(piece: bytes) -> None:
        if time.monotonic() > deadline:
            raise InputError(f"{url}: took too long; {REMEDY}")
        try:
            file.write(piece)
        except OSError as error:  # a disk that is full is not a fault of the web
            message = f"{file.name}: cannot be written ({error.strerror}); make room"
            raise InputError(message) from error
        progress.add(len(piece), "bytes")

    for _ in range(MAX_REDIRECTS + 1):
        secure = is_secure(url, secure)
        left = max(deadline - time.monotonic(), 0)
        limits = RequestLimits(left, largest, allow=lambda _: True, remedy=REMEDY)
        answer = send(url, limits, REQUEST, write)
        if answer.location is None:
            break
        url = answer.location
    else:
        raise InputError(f"{url}: redirects more than {MAX_REDIRECTS} times; give the last address")
    if answer.status != 200:
        raise InputError(f"{url}: answers {answer.status} {answer.reason}; check the address")
    file.flush()


def is_secure(url: str, before: bool) -> bool:
    """Raises unless the address is https, or all so far are of this machine."""
    parts = parse_web_address(url)
    address = literal_address(parts.hostname or "")
    if parts.scheme == "https":
        return True
    if before or address is None or not ip_address(address.partition("%")[0]).is_loopback:
        raise InputError(f"{url}: is not https://; a model comes over https, or from localhost")
    return False


def add(source: str, digest: str | None, name: str | None) -> Path:
    web = "://" in source
    if web and digest is None:
        raise InputError(
            f"{source}: needs --digest, the file's SHA-256 as its maker states it "
            "(`newsift models pack` and sha256sum print it)"
        )
    last = PurePosixPath(unquote(urlsplit(source).path) if web else Path(source).name)
    name = name or last.name.removesuffix(".tar")
    if not NAME.fullmatch(name):
        rule = "needs small letters, digits, '.', '_' and '-', at most 64; give one by --name"
        raise InputError(f"model {name!r}: {rule}")
    if (MODELS / name).is_dir():
        raise InputError(f"model {name!r}: ships with newsift; give another by --name")
    with _staging_folder() as staging:
        place = added_folder() / name
        if place.exists():
            remedy = f"`newsift models remove {name}` makes room, --name gives another"
            raise InputError(f"model {name!r}: is there already, in {place}; {remedy}")
        if web:
            with (staging / "packed").open("xb") as out:
                download(source, out)
        with _open_packed(staging / "packed" if web else Path(source), source) as file:
            _install(file, source, digest, staging / "new", place)
    return place


def remove(name: str) -> None:
    if (MODELS / name).is_dir() and NAME.fullmatch(name):
        raise InputError(f"model {name!r}: ships with newsift, and stays")
    with _staging_folder() as staging:
        names_added = sorted(p.name for p in added_folder().iterdir() if NAME.fullmatch(p.name))
        if name not in names_added:
            names = ", ".join(names_added) or "none"
            raise InputError(f"model {name!r}: was not added to this machine (added: {names})")
        (added_folder() / name).rename(staging / "gone")


def _install(file: BufferedReader, source: str, digest: str | None, new: Path, place: Path) -> None:
    """Moves a checked model to its place in one step."""
    actual = hashlib.file_digest(file, "sha256").hexdigest()
    if digest is not None and actual != digest:
        raise ModelError(f"{source}: wrong digest {actual}, expected {digest}; nothing was added")
    file.seek(0)
    new.mkdir()
    try:
        unpack(file, new)
        read_model(new)
    except ModelError as error:
        problem = str(error).replace(f"{new}/", "").replace(f"{new}: ", "")
        raise ModelError(f"{source}: {problem}; nothing was added") from error
    new.rename(place)


@contextmanager
def _open_packed(path: Path, source: str) -> Iterator[BufferedReader]:
    try:
        file = open(path, "rb", opener=without_waiting)  # noqa: SIM115 - it is closed below
    except OSError as error:
        raise InputError(f"{source}: cannot be read ({error.strerror})") from error
    with file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_MODEL_BYTES:
            rule = f"is not a regular file of at most {MAX_MODEL_BYTES / 2**20:g} MiB"
            raise InputError(f"{source}: {rule}; `newsift models pack` makes one")
        yield file


@contextmanager
def _staging_folder() -> Iterator[Path]:
    """One command at a time; deletes what a killed one left."""
    folder = added_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with ExitStack() as stack:
            try:
                stack.enter_context(exclusive(folder / ".lock"))
            except BlockingIOError as error:
                problem = "another `newsift models add` or `remove` is under way; wait for it"
                raise InputError(f"{folder}: {problem}") from error
            for leftover in folder.glob(f"{STAGING_PREFIX}*"):
                shutil.rmtree(leftover, ignore_errors=True)
            yield Path(stack.enter_context(TemporaryDirectory(dir=folder, prefix=STAGING_PREFIX)))
    except OSError as error:
        problem = f"cannot be written ({error.strerror}); NEWSIFT_STATE names another place"
        raise InputError(f"{folder}: {problem}") from error


def model_row(name: str, path: Path) -> Row:
    """`about` is the first sentence of the card, or the damage."""
    row: Row = {"name": name, "added": path.parent != MODELS}
    try:
        manifest = read_manifest(path)
    except ModelError as error:
        return row | {"digest": None, "bytes": None, "about": str(error), "path": str(path)}
    size = sum(facts.bytes for facts in (manifest.files | manifest.checks).values())
    lines = (line.strip() for line in card_of(path).decode(errors="replace").splitlines())
    about = next((line for line in lines if line and not line.startswith("#")), None)
    return row | {"digest": manifest.digest, "bytes": size, "about": about, "path": str(path)}
