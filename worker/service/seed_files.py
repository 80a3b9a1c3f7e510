"""The cache of seeds on disk: files that name the model and their own content.

They are believed, so they lie in a folder that nobody else can write, or are not read at all.
"""

import hashlib
import logging
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from encoder.embeddings import Embeddings
from encoder.errors import InputError
from encoder.model.weights import F32
from encoder.score.lexical import SparseRows
from encoder.support.files import private_folder, read_regular, refuse_public, write_atomically

MAX_FILES = 16
MAX_MODELS = 4
SPARE = 2000  # articles kept on disk beyond those in use
MAX_BYTES = 2**30
CONTENT = re.compile(r"[0-9a-f]{64}")
NAME = re.compile(r"seeds-([0-9a-f]{12})-([0-9a-f]{24})\.safetensors")
log = logging.getLogger("newsift.seeds")


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Articles by their digests, with their embeddings and thresholds, row by row."""

    contents: tuple[str, ...]
    embeddings: Embeddings
    thresholds: F32  # NaN: not known

    def __post_init__(self) -> None:
        if not len(self.contents) == len(self.embeddings) == len(self.thresholds):
            raise InputError("cache of seeds: the rows differ in number")
        if not all(map(CONTENT.fullmatch, self.contents)):
            raise InputError("cache of seeds: a digest is not 64 hex digits")
        if self.thresholds.dtype != np.float32 or (self.thresholds <= 0).any():
            raise InputError("cache of seeds: a threshold is not above 0")


class SeedFiles:
    """The files of one model and one background rate in a folder that may be read-only."""

    def __init__(self, folder: Path, model: str, rate: float) -> None:
        self._folder, self._model = folder, model
        # The rate is part of the name, so that no threshold is ever taken for another's.
        key = hashlib.sha256(f"{model} {rate!r}".encode()).hexdigest()[:12]
        self._prefix = f"seeds-{key}-"
        self._warned = False

    def load(self) -> Iterator[Entries]:
        """All that the files hold, the oldest first; what is damaged is left out."""
        for file in self._files() if self._is_private() else ():
            try:
                yield self._read(file)
            except (OSError, SafetensorError, LookupError, ValueError, TypeError) as error:
                log.warning("%s: is damaged and left out; it is written anew (%s)", file, error)
                self._remove(file)

    def add(self, entries: Entries, keep: Collection[str]) -> None:
        """Keep new entries; with many files there already, merge them and drop what is unused."""
        if not self._is_private():
            return
        try:
            files = self._files()
            if len(files) >= MAX_FILES:
                entries = merged([*self.load(), entries], keep)
            written = self._write(entries)
            if len(files) >= MAX_FILES:
                for file in files:
                    if file.name != written:
                        self._remove(file)
            self._forget_models()
        except (OSError, InputError) as error:
            self._warn(error)

    def _is_private(self) -> bool:
        """Whether the folder is there and nobody else can change what lies in it."""
        try:
            private_folder(self._folder)
        except (OSError, InputError) as error:
            self._warn(error)
            return False
        return True

    def _write(self, entries: Entries) -> str:
        content = to_bytes(entries, self._model)
        name = f"{self._prefix}{hashlib.sha256(content).hexdigest()[:24]}.safetensors"
        write_atomically(self._folder / name, content, 0o600)
        return name

    def _read(self, file: Path) -> Entries:
        refuse_public(file, file.lstat())
        content = read_regular(file, MAX_BYTES)
        if not file.stem.endswith(hashlib.sha256(content).hexdigest()[:24]):
            raise InputError("its content is not what its name says")
        return from_bytes(content, self._model)

    def _files(self) -> list[Path]:
        """This model's files, the oldest first."""
        return [file for file in self._all() if file.name.startswith(self._prefix)]

    def _all(self) -> list[Path]:
        try:
            named = [file for file in self._folder.iterdir() if NAME.fullmatch(file.name)]
            return sorted(named, key=lambda file: (file.stat().st_mtime_ns, file.name))
        except OSError:
            return []

    def _forget_models(self) -> None:
        """Leave the files of so many models and rates, those written last."""
        latest = dict.fromkeys(file.name[:19] for file in reversed(self._all()))
        for prefix in list(latest)[MAX_MODELS:]:
            for file in self._all():
                if file.name.startswith(prefix):
                    self._remove(file)

    def _remove(self, file: Path) -> None:
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: Exception) -> None:
        if not self._warned:
            log.warning("%s: seeds are not cached; a restart embeds them anew (%s)",
                        self._folder, error)  # fmt: skip
        self._warned = True


def merged(parts: list[Entries], keep: Collection[str]) -> Entries:
    """One for all: each article once, as it was written last; of the unused only the newest."""
    contents = [content for part in parts for content in part.contents]
    last = {content: row for row, content in enumerate(contents)}
    unused = [row for content, row in last.items() if content not in keep]
    dropped = set(sorted(unused)[: max(0, len(unused) - SPARE)])
    rows = np.array(sorted(set(last.values()) - dropped), np.int64)
    vectors = Embeddings.concat([part.embeddings for part in parts])[rows]
    cuts = np.concatenate([part.thresholds for part in parts])[rows]
    return Entries(tuple(contents[row] for row in rows), vectors, cuts)


def to_bytes(entries: Entries, model: str) -> bytes:
    """The entries as the content of a file."""
    vectors = entries.embeddings
    arrays: dict[str, np.ndarray[Any, Any]] = {
        "contents": np.array([list(bytes.fromhex(c)) for c in entries.contents], np.uint8),
        "dense": np.ascontiguousarray(vectors.dense),
        "lexical.indptr": vectors.lexical.indptr,
        "lexical.slots": vectors.lexical.slots,
        "lexical.weights": vectors.lexical.weights,
        "thresholds": entries.thresholds,
        "mix": np.array([vectors.mix], np.float64),
        "model": np.frombuffer(model.encode(), np.uint8),
    }
    return save(arrays)


def from_bytes(content: bytes, model: str) -> Entries:
    """The entries out of a file's content; another model's are refused."""
    named = load(content)
    if named["model"].tobytes() != model.encode():
        raise InputError("it is another model's")
    words = SparseRows(*(named[f"lexical.{part}"] for part in ("indptr", "slots", "weights")))
    vectors = Embeddings(named["dense"], words, float(named["mix"][0]), model)
    contents = tuple(bytes(row).hex() for row in named["contents"])
    return Entries(contents, vectors, named["thresholds"])
