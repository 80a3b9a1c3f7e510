"""Vectors of texts kept on disk, by the text: added to block by block, so that work goes on."""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import IO

import numpy as np

from encoder.errors import InputError
from encoder.weights import F32

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
        self._lock: IO[bytes] | None = None  # held from the first addition on
        self._place = self._read()

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
        self._own()
        names = [key(text) for text in texts]
        try:
            with self._vectors.open("ab") as file:
                file.write(vectors.astype(np.float16).tobytes())
            with self._keys.open("ab") as file:
                file.write(b"".join(names))
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

    def _read(self) -> dict[bytes, int]:
        """The place of every text whose vector is whole."""
        keys = self._keys.read_bytes()
        whole = min(len(keys) // KEY, self._vectors.stat().st_size // (2 * self.width))
        return {keys[i * KEY : (i + 1) * KEY]: i for i in range(whole)}

    def _own(self) -> None:
        """Before the first addition: keep others from adding, and cut off what a crash left."""
        if self._lock is not None:
            return
        lock = self._keys.open("rb")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            lock.close()
            raise InputError(f"{self.folder}: another process adds to it; wait for it") from error
        self._lock = lock
        if self._read() != self._place:
            raise InputError(f"{self.folder}: was added to meanwhile; start again")
        os.truncate(self._keys, len(self) * KEY)
        os.truncate(self._vectors, len(self) * 2 * self.width)


def key(text: str) -> bytes:
    """The name under which a text's vector is kept."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY).digest()
