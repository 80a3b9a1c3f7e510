"""Embeddings, their scores, and their safetensors file."""

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from numbers import Real
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from encoder.errors import InputError, MismatchError
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64
from encoder.score.exact import pair_scores, rounding
from encoder.score.lexical import SLOTS, SparseRows, spans
from encoder.support.files import replacing, require_path
from encoder.support.jit import jit
from encoder.support.readonly import fixed, frozen, read_only
from encoder.support.threads import one_thread

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

MAX_FLOAT = np.finfo(np.float32).max
FORMAT = "newsift.embeddings/1"
SKIM_DENSE = "skim.dense"  # in the file of a background of two readers
SKIMMED = "skimmed"  # in the metadata of a file of skimmed posts
# The arrays of a file and their types, the widest first, so that every array is aligned.
ARRAYS: dict[str, tuple[str, np.dtype[Any]]] = {
    "lexical.indptr": ("I64", np.dtype("<i8")),
    "dense": ("F32", np.dtype("<f4")),
    "lexical.slots": ("I32", np.dtype("<i4")),
    "lexical.weights": ("F32", np.dtype("<f4")),
}


class EmbeddingsWriter:
    """Appends embeddings of one model to a file; `embeddings_writer` creates it."""

    def __init__(self, spools: Mapping[str, IO[bytes]], dim: int) -> None:
        self._spools, self._dim = spools, dim
        self._entries = 0
        self._append("lexical.indptr", np.zeros(1, np.int64))

    def add(self, dense: F32, words: SparseRows) -> None:
        self._append("lexical.indptr", words.indptr[1:] + self._entries)
        self._append("dense", dense)
        self._append("lexical.slots", words.slots)
        self._append("lexical.weights", words.weights)
        self._entries += len(words.slots)

    def write(self, file: IO[bytes], note: Mapping[str, str]) -> None:
        """Write all rows and the metadata to one file."""
        header = self._header(note)
        file.write(len(header).to_bytes(8, "little") + header)
        for spool in self._spools.values():
            spool.seek(0)
            shutil.copyfileobj(spool, file, 2**20)

    def _append(self, name: str, array: NDArray[Any]) -> None:
        self._spools[name].write(np.ascontiguousarray(array, ARRAYS[name][1]).data)

    def _header(self, note: Mapping[str, str]) -> bytes:
        header: dict[str, Any] = {"__metadata__": note}
        begin = 0
        for name, (kind, dtype) in ARRAYS.items():
            size = self._spools[name].tell()
            count, end = size // dtype.itemsize, begin + size
            shape = [count // self._dim, self._dim] if name == "dense" else [count]
            header[name] = {"dtype": kind, "shape": shape, "data_offsets": [begin, end]}
            begin = end
        text = json.dumps(header, separators=(",", ":")).encode()
        return text + b" " * (-len(text) % 8)


@contextmanager
def embeddings_writer(
    path: Path, dim: int, mix: float, digest: str, note: Mapping[str, str] = MappingProxyType({})
) -> Iterator[EmbeddingsWriter]:
    """Write a file of embeddings that replaces the old one when the block ends without an error.

    Temporary files on the same disk need as much space again until then.
    """
    try:
        with ExitStack() as stack:
            spools = {
                name: stack.enter_context(tempfile.TemporaryFile(dir=path.parent))
                for name in ARRAYS
            }
            writer = EmbeddingsWriter(spools, dim)
            yield writer
            with replacing(path) as file:
                writer.write(file, {**note, "format": FORMAT, "mix": repr(mix), "digest": digest})
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror})") from error


def read_tensors(path: Path) -> tuple[dict[str, str], dict[str, NDArray[Any]]]:
    """Read the metadata and the arrays of a file of embeddings."""
    if path.exists() and not path.is_file():
        raise InputError("it is not a regular file")
    with safe_open(path, framework="numpy") as file:
        note = file.metadata() or {}
        if note.get("format") != FORMAT:
            raise InputError(f"it holds no {FORMAT}; make it with `newsift embed`")
        return note, {name: frozen(file.get_tensor(name)) for name in file.keys()}  # noqa: SIM118


MIN_SCORES_FOR_THREADS = 2**20
SCORES_AT_ONCE = 2**22
COLUMNS_AT_ONCE = 2**12  # of the other texts, whose vectors are float64
UNIT_SLACK = 1e-3


def threads_for(scores: int) -> AbstractContextManager[None]:
    """A block in which numpy's products use one thread if there are few scores."""
    return one_thread() if scores < MIN_SCORES_FOR_THREADS else nullcontext()


def row_blocks(rows: int, columns: int) -> Iterator[slice]:
    """Divide the rows of a score matrix into blocks of bounded memory."""
    step = max(1, SCORES_AT_ONCE // max(1, columns))
    return (slice(start, start + step) for start in range(0, rows, step))


def unit_rows(vectors: F32, out: F32 | None = None) -> F32:
    """Scale rows to length 1, into `out` if given; a row of zeros is unchanged."""
    vectors = fixed(np.asarray(vectors, np.float32))
    out = np.empty_like(vectors) if out is None else out
    write_unit_rows(vectors, out)
    return out


@jit()
def write_unit_rows(vectors: F32, out: F32) -> None:
    """Row by row, so that a row is read from memory once."""
    width = vectors.shape[1]
    whole = width - width % 4
    for row in range(len(vectors)):
        a = b = c = d = np.float32(0)  # four sums: an addition waits for the one before
        for k in range(0, whole, 4):
            a += vectors[row, k] * vectors[row, k]
            b += vectors[row, k + 1] * vectors[row, k + 1]
            c += vectors[row, k + 2] * vectors[row, k + 2]
            d += vectors[row, k + 3] * vectors[row, k + 3]
        for k in range(whole, width):
            a += vectors[row, k] * vectors[row, k]
        square = (a + b) + (c + d)
        scale = np.float32(1) / np.sqrt(square) if square != 0 else np.float32(0)
        for k in range(width):
            out[row, k] = vectors[row, k] * scale


@jit()
def write_row_checks(vectors: F32, finite: NDArray[np.bool_], not_zero: NDArray[np.bool_]) -> None:
    for row in range(len(vectors)):
        numbers = others = 0
        for k in range(vectors.shape[1]):
            size = abs(vectors[row, k])
            numbers += size <= MAX_FLOAT
            others += size != 0
        finite[row], not_zero[row] = numbers == vectors.shape[1], others > 0


def dense_rows(
    forward: Callable[[I32, I64, Side], F32], ids: I32, offsets: I64, side: Side, lead: int,
    out: F32 | None = None,
) -> F32:  # fmt: skip
    """Compute unit rows [n, d], into `out` if given; the lead of an article counts twice.

    News articles start with their topic. An article no longer than the lead is unaffected.
    """
    whole = forward(ids, offsets, side)
    if side is Side.POST or not lead:
        return unit_rows(whole, out)
    lengths = np.minimum(np.diff(offsets), lead)
    first, ends = spans(offsets[:-1], lengths), np.cumsum([0, *lengths], dtype=np.int64)
    return unit_rows(unit_rows(whole) + unit_rows(forward(ids[first], ends, side)), out)


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Embeddings:
    """The embeddings of texts by one model; comparable only with that model's."""

    dense: F32  # [n, d], unit rows or zero
    lexical: SparseRows  # [n, slots], unit rows or empty
    mix: float
    digest: str
    skimmed: bool = False  # read by the gated mean, an approximation

    def __post_init__(self) -> None:
        dense = np.asarray(self.dense)
        if dense.ndim != 2 or dense.dtype != np.float32:
            raise InputError(f"dense: {dense.dtype} {dense.shape}, expected float32 [n, d]")
        object.__setattr__(self, "dense", read_only(dense))
        if len(self.lexical) != len(self.dense):
            raise InputError(f"lexical: {len(self.lexical)} rows for {len(self.dense)} texts")
        if not 0 <= self.mix < 1:
            raise InputError(f"mix: {self.mix} is outside [0, 1)")

    def __repr__(self) -> str:
        texts, dim = self.dense.shape
        how = "skimmed, " if self.skimmed else ""
        model = f"λ {self.mix:g}, model {self.digest[:12]}"
        return f"Embeddings({texts} texts, {how}dim {dim}, {model})"

    def __len__(self) -> int:
        return len(self.dense)

    def __getitem__(self, rows: "slice | Sequence[int] | np.ndarray[Any, Any]") -> Self:
        if isinstance(rows, (int, np.integer)):
            raise InputError(f"index {rows}: take rows by a slice or an index array, as [{rows}:]")
        try:
            if not isinstance(rows, slice):
                rows = np.asarray(rows)
                if rows.size == 0:
                    rows = rows.astype(np.int64)
            dense, words = frozen(self.dense[rows]), self.lexical[rows]
        except (IndexError, TypeError, ValueError) as error:
            raise InputError(f"index: {error}; there are {len(self)} rows, from 0") from error
        return type(self)(dense, words, self.mix, self.digest, self.skimmed)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.dense, self.lexical, self.mix, self.digest, self.skimmed)

    def is_unit(self) -> bool:
        """Whether both halves of every row are unit or empty, or the whole row is unit."""
        words = self.lexical
        rows = np.repeat(np.arange(len(self)), np.diff(words.indptr))
        squares = np.bincount(rows, np.square(words.weights, dtype=np.float64), len(self))
        dense = np.einsum("nd,nd->n", self.dense, self.dense)  # [n]
        whole = np.sqrt((1 - self.mix) * dense + self.mix * squares)  # [n]
        lengths = np.sqrt([dense, squares])  # [2, n]; that of a NaN is neither 1 nor 0
        halves = (abs(lengths - 1) <= UNIT_SLACK) | (lengths == 0)
        return bool((halves.all(axis=0) | (abs(whole - 1) <= UNIT_SLACK)).all())

    def similarity(self, other: "Embeddings") -> F32:
        """Compute all scores with the texts of `other`: [n, k] in [-1, 1].

        Each is what a worker reports: it depends on the two texts and the model alone.
        """
        require_same_model(self, other)
        scores = np.empty((len(self), len(other)), np.float32)
        for start in range(0, len(other), COLUMNS_AT_ONCE):
            columns = slice(start, start + COLUMNS_AT_ONCE)
            part = other[columns] if len(other) > COLUMNS_AT_ONCE else other
            right = part.dense.astype(np.float64)  # [columns, d]
            for rows in row_blocks(len(self), 4 * len(part)):
                scores[rows, columns] = self[rows]._exact_scores(part, right)
        return scores

    def _exact_scores(self, other: "Embeddings", right: NDArray[np.float64]) -> F32:
        """Round float64 scores; where their error may change the result, sum in the fixed order."""
        with threads_for(len(self) * len(other)):
            score = self.dense.astype(np.float64) @ right.T  # [n, k]
        score *= 1 - self.mix
        if self.mix:
            score += self.mix * self.lexical.products(other.lexical)
        error = (right.shape[1] + 64) * 2.0**-52
        low, high = (np.clip(score + e, -1, 1).astype(np.float32) for e in (-error, error))
        pairs = np.argwhere((low < high) & (score != 0))
        rounded: F32 = np.clip(score, -1, 1).astype(np.float32)
        rounded[pairs[:, 0], pairs[:, 1]] = pair_scores(self, other, pairs)
        return rounded

    def _near_scores(self, other: "Embeddings") -> F32:
        """Compute all scores, as exact as float32 products are."""
        with threads_for(len(self) * len(other)):
            score: F32 = self.dense @ other.dense.T  # [n, k]
        if self.mix:
            score *= np.float32(1 - self.mix)
            score += np.float32(self.mix) * self.lexical.products(other.lexical)
        return score

    def search(self, other: "Embeddings", k: int = 10) -> tuple[F32, I64]:
        """Find the k best texts of `other` for every text: scores and indices [n, k], best first.

        Equal scores are ordered by index. With fewer than k texts there are fewer columns.
        """
        if not (is_real(k) and k >= 1 and k % 1 == 0):
            raise InputError(f"k: {k!r} is not a whole number of at least 1")
        require_same_model(self, other)
        refuse_wrong_lengths(texts=self, others=other)
        k = min(int(k), len(other))
        scores, indices = np.empty((len(self), k), np.float32), np.empty((len(self), k), np.int64)
        for rows in row_blocks(len(self), len(other)) if k else ():
            scores[rows], indices[rows] = self[rows]._highest(other, k)
        return scores, indices

    def _highest(self, other: "Embeddings", k: int) -> tuple[F32, I64]:
        """Return the k highest scores of each row and their indices: [n, k]."""
        near = self._near_scores(other)
        slack = 2 * np.float32(rounding(self.dense.shape[1]))
        maybe = near >= np.partition(near, -k, axis=1)[:, [-k]] - slack  # [n, others]
        maybe[~near.any(axis=1), k:] = False  # a text without words
        pairs = np.argwhere(maybe)
        exact = pair_scores(self, other, pairs)
        order = np.lexsort((pairs[:, 1], -exact, pairs[:, 0]))
        counts = maybe.sum(axis=1)
        best = order[(counts.cumsum() - counts)[:, None] + np.arange(k)]  # [n, k]
        return exact[best], pairs[best, 1]

    def as_vectors(self) -> "csr_matrix":
        """Return one sparse matrix [n, d + slots] whose dot products are the scores."""
        try:
            from scipy.sparse import csr_matrix, hstack
        except ImportError as error:
            raise InputError("as_vectors: needs scipy; pip install scipy") from error
        words = self.lexical
        weights = np.float32(np.sqrt(self.mix)) * words.weights
        dense = csr_matrix(np.float32(np.sqrt(1 - self.mix)) * self.dense)
        lexical = csr_matrix((weights, words.slots, words.indptr), shape=(len(self), SLOTS))
        return hstack([dense, lexical], format="csr")

    def save(self, path: str | Path) -> None:
        """Write the embeddings to a safetensors file, atomically."""
        file_path = require_path("path", path)
        reader = {SKIMMED: "true"} if self.skimmed else {}
        with embeddings_writer(
            file_path, self.dense.shape[1], self.mix, self.digest, reader
        ) as file:
            file.add(self.dense, self.lexical)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read embeddings from a file that `save` wrote."""
        try:
            note, tensors = read_tensors(Path(path))
            rows = SparseRows(*(tensors[f"lexical.{p}"] for p in ("indptr", "slots", "weights")))
            embeddings = cls(
                tensors["dense"], rows, float(note["mix"]), note["digest"], SKIMMED in note
            )
        except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
            raise InputError(f"{path}: cannot be read as embeddings ({error})") from error
        if not embeddings.is_unit():
            raise InputError(
                f"{path}: a row is neither of length 1 nor zero; embed the texts again"
            )
        return embeddings

    @classmethod
    def concat(cls, parts: "Iterable[Embeddings]") -> Self:
        """Concatenate embeddings of one model."""
        parts = list(parts) if is_iterable(parts) else []
        if not parts:
            raise InputError("concat: no embeddings given; there is no model to take")
        for part in parts:
            require_same_model(require_embeddings("concat", parts[0]), part)
            if part.skimmed != parts[0].skimmed:
                raise MismatchError(
                    "concat: some texts were skimmed and some read; embed all in one way"
                )
        dense = frozen(np.concatenate([p.dense for p in parts]))
        lexical = SparseRows.concat([p.lexical for p in parts])
        return cls(dense, lexical, parts[0].mix, parts[0].digest, parts[0].skimmed)


def check_rows(vectors: Embeddings) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether each vector is finite, and whether its text has words: [n], [n]."""
    finite, not_zero = np.empty((2, len(vectors)), np.bool_)
    write_row_checks(vectors.dense, finite, not_zero)
    return finite, not_zero | (np.diff(vectors.lexical.indptr) > 0)


def require_same_model(embeddings: Embeddings, other: object) -> None:
    if not isinstance(other, Embeddings):
        kind = type(other).__name__
        raise InputError(f"a {kind} was given for embeddings; embed its texts first")
    (_, dim), (_, other_dim) = embeddings.dense.shape, other.dense.shape
    if (embeddings.digest, embeddings.mix, dim) != (other.digest, other.mix, other_dim):
        raise MismatchError(
            f"embeddings of model {embeddings.digest[:12]} (λ {embeddings.mix:g}, dim {dim}) and "
            f"of {other.digest[:12]} (λ {other.mix:g}, dim {other_dim}); embed both with one model"
        )


def is_real(value: object) -> bool:
    return isinstance(value, Real)


def is_iterable(value: object) -> bool:
    return isinstance(value, Iterable)


def require_embeddings(name: str, value: object) -> Embeddings:
    if not isinstance(value, Embeddings):
        kind = type(value).__name__
        raise InputError(f"{name}: a {kind} was given for embeddings; embed its texts first")
    return value


def refuse_wrong_lengths(**by_name: Embeddings) -> None:
    """Raise InputError for rows that no text has: neither unit nor zero."""
    for name, embeddings in by_name.items():
        if not embeddings.is_unit():
            raise InputError(f"{name}: a row is neither of length 1 nor zero; embed them again")


@dataclass(frozen=True, slots=True)
class Background:
    """Everyday posts, each read and skimmed, row by row."""

    read: Embeddings
    skim: Embeddings

    def __post_init__(self) -> None:
        if len(self.read) != len(self.skim) or self.read.skimmed or not self.skim.skimmed:
            raise InputError(
                f"background: {self.read!r} and {self.skim!r} are not the two readers' vectors of "
                "the same posts"
            )

    def __len__(self) -> int:
        return len(self.read)

    def __getitem__(self, rows: "slice | Sequence[int] | np.ndarray[Any, Any]") -> Self:
        return type(self)(self.read[rows], self.skim[rows])

    @classmethod
    def of_one_reader(cls, posts: Embeddings) -> Self:
        """Of a model whose one reader skims and reads."""
        return cls(replace(posts, skimmed=False), replace(posts, skimmed=True))

    @property
    def has_one_reader(self) -> bool:
        return np.shares_memory(self.read.dense, self.skim.dense)

    def save(self, path: Path, note: Mapping[str, str] = MappingProxyType({})) -> None:
        """Write both readers' vectors to one file, atomically; the words are the same for both."""
        read, words = self.read, self.read.lexical
        tensors: dict[str, NDArray[Any]] = {
            "dense": read.dense,
            "lexical.indptr": words.indptr,
            "lexical.slots": words.slots,
            "lexical.weights": words.weights,
        }
        if not self.has_one_reader:
            tensors[SKIM_DENSE] = self.skim.dense
        marks = {"format": FORMAT, "mix": repr(read.mix), "digest": read.digest}
        try:
            with replacing(path) as file:
                file.write(save(tensors, {**note, **marks}))
        except OSError as error:
            raise InputError(f"{path}: cannot be written ({error.strerror})") from error

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the file of a background; one of embeddings is that of one reader."""
        read = Embeddings.load(path)
        dense = read_tensors(Path(path))[1].get(SKIM_DENSE)
        if dense is None:
            return cls.of_one_reader(read)
        skim = Embeddings(dense, read.lexical, read.mix, read.digest, skimmed=True)
        if dense.shape != read.dense.shape or not skim.is_unit():
            raise InputError(f"{path}: its two readers' vectors do not belong together")
        return cls(read, skim)
