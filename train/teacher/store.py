"""Vectors of texts kept on disk, by the text: added to block by block, so that work goes on."""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from encoder.errors import InputError
from encoder.model.weights import F32

KEY = 16


class VectorStore:
    """Texts' vectors in half precision; many may read while one process at a time adds to them."""

    def __init__(self, folder: Path, width: int) -> None:
        self.folder, self.width = folder, width
        self._keys, self._vectors = folder / "keys", folder / "vectors"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._keys.touch()
            self._vectors.touch()
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
        keys = self._keys.read_bytes()
        self._place = {keys[i * KEY : (i + 1) * KEY]: i for i in range(self._whole())}

    def __len__(self) -> int:
        return len(self._place)

    def missing(self, texts: Iterable[str]) -> list[str]:
        """The texts, each once, that have no vector yet."""
        return [text for text in dict.fromkeys(texts) if key(text) not in self._place]

    def add(self, texts: Sequence[str], vectors: F32) -> None:
        """Keep the vectors [n, width] of texts that had none."""
        if vectors.shape != (len(texts), self.width):
            raise InputError(
                f"vectors: shape {list(vectors.shape)}, expected {[len(texts), self.width]}"
            )
        names = [key(text) for text in texts]
        try:
            with self._keys.open("ab") as keys, self._vectors.open("ab") as values:
                fcntl.flock(keys, fcntl.LOCK_EX)
                self._cut()
                values.write(vectors.astype(np.float16).tobytes())
                values.flush()
                keys.write(b"".join(names))
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be written ({error.strerror})") from error
        self._place |= {name: len(self._place) + i for i, name in enumerate(names)}

    def get(self, texts: Sequence[str]) -> F32:
        """The vectors [n, width] of texts that all have one."""
        if not texts:
            return np.zeros((0, self.width), np.float32)
        try:
            places = [self._place[key(text)] for text in texts]
        except KeyError:
            lacking = len(self.missing(texts))
            raise InputError(
                f"{self.folder}: {lacking:,} texts have no vector from the teacher; run "
                "`python -m train.teach` to its end"
            ) from None
        stored = np.memmap(self._vectors, np.float16, "r", shape=(len(self), self.width))
        return stored[places].astype(np.float32)

    def _whole(self) -> int:
        """How many vectors are there with their keys."""
        bytes_each = ((self._keys, KEY), (self._vectors, 2 * self.width))
        return min(file.stat().st_size // size for file, size in bytes_each)

    def _cut(self) -> None:
        """Cut off what a crash left; what another process has added is kept, and we stop."""
        if self._whole() != len(self):
            raise InputError(f"{self.folder}: another process adds to it; start again after it")
        os.truncate(self._keys, len(self) * KEY)
        os.truncate(self._vectors, len(self) * 2 * self.width)


def key(text: str) -> bytes:
    """The name under which a text's vector is kept."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY).digest()
