"""A model as one file: the plain tar of its directory, the same to the byte for the same model.

Headers are read one by one, here: a tar may hold links, devices, sparse files and headers that
grow without bound, and a model needs none of them. Nothing is packed, so nothing can swell.
"""

import hashlib
import os
import tarfile
from pathlib import Path
from typing import BinaryIO

from encoder.directory import read_model
from encoder.errors import InputError, ModelError, one_line
from encoder.manifest import (
    ARTICLE_CHECK,
    FILE_BYTES,
    IDF,
    MANIFEST,
    MANIFEST_BYTES,
    NEEDED,
    read_directory,
)
from encoder.support.files import read_regular, replacing
from encoder.support.named import CARD, card_of

FILES = {MANIFEST, *NEEDED, IDF, ARTICLE_CHECK, CARD}
BLOCK, END = 512, bytes(512)
PIECE = 2**20


def pack(folder: Path, out: Path) -> str:
    """Write a sound model directory to a file; the file's digest."""
    read_model(folder)
    _, files = read_directory(folder)
    held = {MANIFEST: read_regular(folder / MANIFEST, MANIFEST_BYTES), **files}
    if card := card_of(folder):
        held[CARD] = card
    digest = hashlib.sha256()
    try:
        with replacing(out) as file:
            for name, content in sorted(held.items()):
                for piece in (_header(name, len(content)), content, bytes(-len(content) % BLOCK)):
                    digest.update(piece)
                    file.write(piece)
            digest.update(2 * END)
            file.write(2 * END)
    except OSError as error:
        raise InputError(f"{out}: cannot be written ({error.strerror})") from error
    return digest.hexdigest()


def unpack(file: BinaryIO, into: Path) -> None:
    """Put the files of a packed model into an empty folder; refused is whatever else is there."""
    seen: set[str] = set()
    while (block := file.read(BLOCK)) != END:
        try:
            info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        except (tarfile.TarError, ValueError) as error:
            raise _none(f"its header {len(seen) + 1} cannot be read") from error
        if info.name not in FILES or info.name in seen or info.type != tarfile.REGTYPE:
            raise _none(f"it holds {info.name!r}, or holds it twice, or as no regular file")
        if not 0 <= info.size <= FILE_BYTES:
            raise _none(f"{info.name} would be {info.size} bytes")
        seen.add(info.name)
        with (into / info.name).open("xb") as out:
            _copy(file, out, info)
            os.fsync(out.fileno())


def _copy(file: BinaryIO, out: BinaryIO, info: tarfile.TarInfo) -> None:
    left = info.size
    while left:
        piece = file.read(min(left, PIECE))
        if not piece:
            raise _none(f"it ends {left} bytes early in {info.name}")
        out.write(piece)
        left -= len(piece)
    out.flush()
    file.read(-info.size % BLOCK)


def _header(name: str, size: int) -> bytes:
    info = tarfile.TarInfo(name)
    info.size = size
    return info.tobuf(tarfile.USTAR_FORMAT)


def _none(why: str) -> ModelError:
    return ModelError(one_line(f"is no model as `newsift models pack` packs it: {why}"))
