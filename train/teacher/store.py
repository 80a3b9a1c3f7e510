"""The teacher's vectors and token states on disk."""

import fcntl
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from encoder.embeddings import unit_rows
from encoder.errors import InputError
from encoder.model.weights import F32, I8, I32, I64, quantise_rows
from encoder.score.lexical import spans
from encoder.support.files import write_atomically
from encoder.text.vocabulary import Vocabulary, WordPiece

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
                "another folder with --cache"
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
                "`python -m train.teach` to its end"
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


@dataclass(frozen=True, slots=True)
class TeacherPair:
    """Two teachers as one: its cosines are the mean of theirs, the second's with weight `share`."""

    first: VectorStore
    second: VectorStore
    share: float

    @property
    def folder(self) -> Path:
        return self.first.folder

    @property
    def width(self) -> int:
        return self.first.width + self.second.width

    def get(self, texts: Sequence[str]) -> F32:
        return self.combine(self.first.get(texts), self.second.get(texts))

    def combine(self, first: F32, second: F32) -> F32:
        """Put both teachers' vectors side by side, as unit vectors: [n, width]."""
        weights = np.sqrt(1 - self.share), np.sqrt(self.share)
        parts = (w * unit_rows(part) for w, part in zip(weights, (first, second), strict=True))
        return np.hstack(list(parts)).astype(np.float32)


TextVectors = VectorStore | TeacherPair


def text_key(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=KEY_BYTES).digest()


STATES = "states"  # the folder of the states, inside that of the vectors
MIN_PIECES, MAX_PIECES = 3, 64  # word pieces of a text whose states are stored
BLOCK = 128  # texts


class TokenStates:
    """States of word pieces in int8; for many readers and one writer."""

    def __init__(self, folder: Path, width: int) -> None:
        self.folder, self.width = folder, width
        files = {"keys": KEY_BYTES, "lengths": 4, "scales": 4, "codes": width}
        self._files = {folder / name: size for name, size in files.items()}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            for file in self._files:
                file.touch()
        except OSError as error:
            raise InputError(f"{folder}: cannot be written ({error.strerror})") from error
        self._load()

    def _read_ends(self) -> I64:
        """Read where each complete entry's rows end: [texts]."""
        keys, lengths, scales, codes = self._files
        texts = min(keys.stat().st_size // KEY_BYTES, lengths.stat().st_size // 4)
        ends = np.cumsum(np.fromfile(lengths, np.int32, texts), dtype=np.int64)
        rows = min(scales.stat().st_size // 4, codes.stat().st_size // self.width)
        return ends[: np.searchsorted(ends, rows, "right")]

    def _load(self) -> None:
        """Load the complete entries."""
        keys, _, scales, codes = self._files
        self._ends = self._read_ends()
        names = keys.read_bytes()
        starts = np.append(0, self._ends).tolist()
        self._starts: dict[bytes, int] = {
            names[i * KEY_BYTES : (i + 1) * KEY_BYTES]: starts[i] for i in range(len(self._ends))
        }
        self.scales: F32 = np.zeros(0, np.float32)
        self.codes: I8 = np.zeros((0, self.width), np.int8)
        if rows := self.rows:
            self.scales = np.memmap(scales, np.float32, "r", shape=(rows,))
            self.codes = np.memmap(codes, np.int8, "r", shape=(rows, self.width))

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def rows(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def start(self, pieces: I32) -> int:
        """Return the row of the first piece's state, or -1."""
        return self._starts.get(pieces_key(pieces), -1)

    def read(self, rows: I64) -> F32:
        out: F32 = self.codes[rows] * self.scales[rows][:, None]
        return out

    def add(self, texts: Sequence[I32], states: Sequence[F32]) -> None:
        """Store the states [pieces, width] of each new text."""
        codes, scales = quantise_rows(np.concatenate(states))
        lengths = np.array(list(map(len, texts)), np.int32)
        if codes.shape != (lengths.sum(), self.width):
            raise InputError(f"states: {list(codes.shape)} of {lengths.sum()} pieces")
        names = b"".join(map(pieces_key, texts))
        parts = (names, lengths.tobytes(), scales.tobytes(), codes.tobytes())
        try:
            with next(iter(self._files)).open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                self._truncate()
                for file, part in reversed(list(zip(self._files, parts, strict=True))):
                    with file.open("ab") as out:
                        out.write(part)
        except OSError as error:
            raise InputError(f"{self.folder}: cannot be written ({error.strerror})") from error
        self._load()

    def _truncate(self) -> None:
        """Truncate incomplete entries; raise InputError if another process has added entries."""
        if len(self._read_ends()) != len(self._ends):
            raise InputError(f"{self.folder}: another process adds to it; start again after it")
        texts = len(self._ends)
        counts = (texts, texts, self.rows, self.rows)
        for (file, size), count in zip(self._files.items(), counts, strict=True):
            os.truncate(file, count * size)


def pieces_key(pieces: I32) -> bytes:
    return hashlib.blake2b(np.asarray(pieces, np.int32).tobytes(), digest_size=KEY_BYTES).digest()


class Pieces:
    """The teacher's word pieces of each token of a vocabulary."""

    def __init__(self, vocabulary: Vocabulary, count: int) -> None:
        """The first `count` entries are the teacher's; the others are whole words."""
        lines = vocabulary.lines()
        teacher = WordPiece.from_lines(lines[:count])
        pieces = [(i,) for i in range(count)] + [teacher.pieces(word) for word in lines[count:]]
        self.counts: I64 = np.array(list(map(len, pieces)), np.int64)  # [vocabulary]
        self._starts: I64 = np.cumsum(self.counts) - self.counts
        self._flat = np.array([piece for word in pieces for piece in word], np.int32)

    def of(self, tokens: I32) -> I32:
        return self._flat[spans(self._starts[tokens], self.counts[tokens])]


class TokenTargets:
    """The teacher's states of tokens; that of a whole word is the mean over its pieces."""

    def __init__(self, states: TokenStates, pieces: Pieces) -> None:
        self._states, self._pieces = states, pieces

    def starts(self, texts: Sequence[I32]) -> I64:
        """Return the first row of each text's states, or -1: [n]."""
        return np.array([self._states.start(self._pieces.of(ids)) for ids in texts], np.int64)

    def read(self, start: int, ids: I32, places: I64) -> F32:
        """Read the states of a text's tokens at these indices: [places, width]."""
        counts = self._pieces.counts[ids]
        first = start + np.cumsum(counts) - counts
        rows = self._states.read(spans(first[places], counts[places]))
        ends = np.cumsum(counts[places])
        sums = np.add.reduceat(rows, ends - counts[places], axis=0)
        return np.asarray(sums / counts[places][:, None], np.float32)
