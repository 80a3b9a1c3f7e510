"""The teacher's vectors on disk."""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from encoder.errors import InputError
from encoder.model.weights import F32
from encoder.support.files import write_atomically

KEY_BYTES = 16


class VectorStore:
    """Vectors of texts in float16; for many readers and one writer."""

    def __init__(self, folder: Path, width: int) -> None:
        self.folder, self.width = folder, width
        self._keys_file, self._vectors_file = folder / "keys", folder / "vectors"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._keys_file.touch()
            self._vectors_file.touch()
            width_file = folder / "width"
            if not width_file.exists():
                write_atomically(width_file, str(width).encode())
            stored_width = width_file.read_text()
            keys = self._keys_file.read_bytes()
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
        if stored_width != str(width):
            raise InputError(
                f"{folder}: holds another teacher's vectors, {stored_width[:9]} wide, not {width}; "
                "name another folder"
            )
        count = self._entry_count(len(keys))  # of what was read: another process may add
        self._rows = {keys[i * KEY_BYTES : (i + 1) * KEY_BYTES]: i for i in range(count)}

    def __len__(self) -> int:
        return len(self._rows)

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Return the distinct texts without a vector."""
        return [text for text in dict.fromkeys(texts) if text_key(text) not in self._rows]

    def add(self, texts: Sequence[str], vectors: F32) -> None:
        """Store the vectors [n, width] of distinct texts that have none."""
        if vectors.shape != (len(texts), self.width):
            raise InputError(
                f"vectors: shape {list(vectors.shape)}, expected {[len(texts), self.width]}"
            )
        keys = [text_key(text) for text in texts]
        try:
            with self._keys_file.open("ab") as to_keys, self._vectors_file.open("ab") as to_vectors:
                fcntl.flock(to_keys, fcntl.LOCK_EX)
                self._drop_incomplete()
                to_vectors.write(vectors.astype(np.float16).tobytes())
                to_vectors.flush()
                to_keys.write(b"".join(keys))
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be written ({error.strerror})") from error
        self._rows |= {key: len(self._rows) + i for i, key in enumerate(keys)}

    def get(self, texts: Sequence[str]) -> F32:
        """Return the vectors [n, width]; a text without one raises InputError."""
        if not texts:
            return np.zeros((0, self.width), np.float32)
        try:
            rows = [self._rows[text_key(text)] for text in texts]
        except KeyError:
            count = len(self.missing(texts))
            raise InputError(
                f"{self.folder}: {count:,} texts have no vector from the teacher; run "
                "`python -m train.transformer.embed` to its end"
            ) from None
        vectors = np.memmap(self._vectors_file, np.float16, "r", shape=(len(self), self.width))
        return vectors[rows].astype(np.float32)

    def _entry_count(self, key_bytes: int) -> int:
        """Count the complete entries."""
        vector_bytes = self._vectors_file.stat().st_size
        return min(key_bytes // KEY_BYTES, vector_bytes // (2 * self.width))

    def _drop_incomplete(self) -> None:
        """Cut off what a crash left; raise InputError if another process has added entries."""
        if self._entry_count(self._keys_file.stat().st_size) != len(self):
            raise InputError(f"{self.folder}: another process adds to it; start again after it")
        os.truncate(self._keys_file, len(self) * KEY_BYTES)
        os.truncate(self._vectors_file, len(self) * 2 * self.width)


def text_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
