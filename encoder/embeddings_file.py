"""The file of embeddings: safetensors, written part by part in bounded memory."""

import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open

from encoder.errors import InputError
from encoder.model.weights import F32
from encoder.score.lexical import SparseRows
from encoder.support.files import replacing
from encoder.support.readonly import frozen

FORMAT = "newsift.embeddings/1"
# By falling width, so that every number stands at a multiple of its own.
KINDS: dict[str, tuple[str, np.dtype[Any]]] = {
    "lexical.indptr": ("I64", np.dtype("<i8")),
    "dense": ("F32", np.dtype("<f4")),
    "lexical.slots": ("I32", np.dtype("<i4")),
    "lexical.weights": ("F32", np.dtype("<f4")),
}


class EmbeddingsWriter:
    """Takes the rows of one model's embeddings part by part; `saving` makes one."""

    def __init__(self, spools: Mapping[str, IO[bytes]], dim: int) -> None:
        self._spools, self._dim = spools, dim
        self._entries = 0
        self._append("lexical.indptr", np.zeros(1, np.int64))

    def add(self, dense: F32, words: SparseRows) -> None:
        """Append some rows of both halves."""
        self._append("lexical.indptr", words.indptr[1:] + self._entries)
        self._append("dense", dense)
        self._append("lexical.slots", words.slots)
        self._append("lexical.weights", words.weights)
        self._entries += len(words.slots)

    def write(self, file: IO[bytes], note: Mapping[str, str]) -> None:
        """Write all that was added as one file, with a note of what it is."""
        header = self._header(note)
        file.write(len(header).to_bytes(8, "little") + header)
        for spool in self._spools.values():
            spool.seek(0)
            shutil.copyfileobj(spool, file, 2**20)

    def _append(self, name: str, array: NDArray[Any]) -> None:
        self._spools[name].write(np.ascontiguousarray(array, KINDS[name][1]).data)

    def _header(self, note: Mapping[str, str]) -> bytes:
        header: dict[str, Any] = {"__metadata__": note}
        begin = 0
        for name, (kind, dtype) in KINDS.items():
            size = self._spools[name].tell()
            count, end = size // dtype.itemsize, begin + size
            shape = [count // self._dim, self._dim] if name == "dense" else [count]
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
            begin = end
        text = json.dumps(header, separators=(",", ":")).encode()
        return text + b" " * (-len(text) % 8)


@contextmanager
def saving(
    path: Path, dim: int, mix: float, digest: str, note: Mapping[str, str] = MappingProxyType({})
) -> Iterator[EmbeddingsWriter]:
    """A file of a model's embeddings that takes the place of the old one when all went well.

    What is added waits on the disk of the file, which takes its size twice until it is complete.
    """
    try:
        with ExitStack() as stack:
            spools = {
                name: stack.enter_context(tempfile.TemporaryFile(dir=path.parent)) for name in KINDS
            }
            writer = EmbeddingsWriter(spools, dim)
            yield writer
            with replacing(path) as file:
                writer.write(file, {**note, "format": FORMAT, "mix": repr(mix), "digest": digest})
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def opened(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """The note and the arrays of a file of embeddings."""
    if path.exists() and not path.is_file():
        raise InputError("it is no regular file")
    with safe_open(path, framework="numpy") as file:
        note = file.metadata() or {}
        if note.get("format") != FORMAT:
            raise InputError(f"it holds no {FORMAT}; make it with `newsift embed`")
        return note, {name: frozen(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118
