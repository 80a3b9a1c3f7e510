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
        self._keys, self._vectors = folder / "keys", folder / "vectors"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._keys.touch()
            self._vectors.touch()
            stored_width = folder / "width"
            if not stored_width.exists():
                write_atomically(stored_width, str(width).encode())
            actual = stored_width.read_text()
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
        if actual != str(width):
            raise InputError(
                f"{folder}: holds another teacher's vectors, {actual[:9]} wide, not {width}; name "
                "another folder"
            )
        keys = self._keys.read_bytes()
        self._rows = {
            keys[i * KEY_BYTES : (i + 1) * KEY_BYTES]: i for i in range(self._entry_count())
        }

    def __len__(self) -> int:
        return len(self._rows)

    def missing(self, texts: Iterable[str]) -> list[str]:
        """Return the distinct texts without a vector."""
        return [text for text in dict.fromkeys(texts) if text_key(text) not in self._rows]

    def add(self, texts: Sequence[str], vectors: F32) -> None:
        """Store the vectors [n, width] of new texts."""
        if vectors.shape != (len(texts), self.width):
            raise InputError(
                f"vectors: shape {list(vectors.shape)}, expected {[len(texts), self.width]}"
            )
        names = [text_key(text) for text in texts]
        try:
            with self._keys.open("ab") as keys, self._vectors.open("ab") as values:
                fcntl.flock(keys, fcntl.LOCK_EX)
                self._truncate()
                values.write(vectors.astype(np.float16).tobytes())
                values.flush()
                keys.write(b"".join(names))
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be written ({error.strerror})") from error
        self._rows |= {name: len(self._rows) + i for i, name in enumerate(names)}

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
        vectors = np.memmap(self._vectors, np.float16, "r", shape=(len(self), self.width))
        return vectors[rows].astype(np.float32)

    def _entry_count(self) -> int:
        """Count the complete entries."""
        bytes_each = ((self._keys, KEY_BYTES), (self._vectors, 2 * self.width))
        return min(file.stat().st_size // size for file, size in bytes_each)

    def _truncate(self) -> None:
        """Truncate incomplete entries; raise InputError if another process has added entries."""
        if self._entry_count() != len(self):
            raise InputError(f"{self.folder}: another process adds to it; start again after it")
        os.truncate(self._keys, len(self) * KEY_BYTES)
        os.truncate(self._vectors, len(self) * 2 * self.width)


def text_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()
