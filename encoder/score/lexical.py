"""The words half: words hashed into slots, weighted by a fixed idf, as sparse rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log
from typing import Any, NamedTuple, Self
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from encoder.errors import InputError
from encoder.model.weights import F32, I32, I64
from encoder.support.jit import jit
from encoder.support.letters import fold
from encoder.support.readonly import fixed, frozen, read_only

SLOT_BITS = 18
SLOTS = 2**SLOT_BITS
NO_SLOT = -1
GOLDEN = 0x9E3779B1
MAX_REPEATS = 2  # of a word that count, in an article
SHELL_GAPS = (1750, 701, 301, 132, 57, 23, 10, 4, 1)


def slot(word: str) -> int:
    """The slot of a word, ignoring case and accents; NO_SLOT without a letter or digit."""
    key = fold(word)
    if not any(map(str.isalnum, key)):
        return NO_SLOT
    # crc32 alone is linear, so similar words would collide
    mixed = crc32(key.encode("utf-8", "replace")) * GOLDEN & 0xFFFFFFFF
    return mixed >> (32 - SLOT_BITS)


def spans(starts: I64, lengths: I64) -> I64:
    """Concatenate the ranges [start, start + length)."""
    ends = np.cumsum(lengths)
    return np.arange(lengths.sum()) + np.repeat(starts - ends + lengths, lengths)


class RowArrays(NamedTuple):
    """Sparse rows for compiled code, as in CSR."""

    indptr: I64  # [rows + 1]
    slots: I32  # [entries]
    weights: F32  # [entries]


class SlotArrays(NamedTuple):
    """The entries of sparse rows by slot, as in CSC."""

    starts: I32  # [SLOTS + 1]
    rows: I32  # [entries], ascending within a slot
    weights: F32  # [entries]


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Sparse rows over the slots, as in CSR."""

    indptr: I64  # [rows + 1]
    slots: I32  # [entries], ascending within a row
    weights: F32  # [entries]

    def __post_init__(self) -> None:
        for name, kind in (("indptr", np.int64), ("slots", np.int32), ("weights", np.float32)):
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 1:
                raise InputError(
                    f"sparse rows: {name} is not a one-dimensional array of {kind.__name__}"
                )
            object.__setattr__(self, name, read_only(array))
        if not well_formed(self.indptr, self.slots, self.weights):
            raise InputError(
                f"sparse rows: each needs ascending slots below {SLOTS} and finite weights"
            )

    def __repr__(self) -> str:
        return f"SparseRows({len(self)} rows, {len(self.slots)} words)"

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __getitem__(self, key: slice | NDArray[Any] | Sequence[int]) -> Self:
        if isinstance(key, slice) and key.step in (None, 1):
            start, stop, _ = key.indices(len(self))
            indptr = self.indptr[start : max(start, stop) + 1]
            entries = slice(indptr[0], indptr[-1])
            return type(self)(
                frozen(indptr - indptr[0]), self.slots[entries], self.weights[entries]
            )
        rows = np.arange(len(self))[key]
        if rows.ndim != 1:
            raise InputError(f"sparse rows: {key!r} selects no list of rows; use a slice")
        lengths = np.diff(self.indptr)[rows]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        places = spans(self.indptr[rows], lengths)
        return type(self)(frozen(indptr), frozen(self.slots[places]), frozen(self.weights[places]))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.indptr, self.slots, self.weights)

    @classmethod
    def empty(cls, rows: int) -> Self:
        none = frozen(np.zeros(0, np.int32))
        return cls(frozen(np.zeros(rows + 1, np.int64)), none, frozen(none.astype(np.float32)))

    @classmethod
    def concat(cls, parts: Sequence[Self]) -> Self:
        lengths = [np.diff(part.indptr) for part in parts]
        indptr = np.cumsum(np.concatenate([[0], *lengths])).astype(np.int64)
        nothing = cls.empty(0)
        slots = np.concatenate([nothing.slots, *(part.slots for part in parts)])
        weights = np.concatenate([nothing.weights, *(part.weights for part in parts)])
        return cls(frozen(indptr), frozen(slots), frozen(weights))

    def unit(self) -> Self:
        """The same rows scaled to length 1; an empty or zero row stays unchanged."""
        return type(self)(self.indptr, self.slots, frozen(unit_weights(self.indptr, self.weights)))

    def dot(self, other: "SparseRows") -> F32:
        """The scalar product of every row with every row of `other`: [rows, other rows]."""
        out = np.zeros((len(self), len(other)), np.float32)
        self._write_products(other, out)
        return out

    def products(self, other: "SparseRows") -> NDArray[np.float64]:
        """As `dot`, not rounded to float32."""
        out = np.zeros((len(self), len(other)), np.float64)
        self._write_products(other, out)
        return out

    def _write_products(self, other: "SparseRows", out: NDArray[Any]) -> None:
        if len(self.slots) and len(other.slots):
            write_products(self.arrays, other.inverted, out)

    @property
    def arrays(self) -> RowArrays:
        return RowArrays(fixed(self.indptr), fixed(self.slots), fixed(self.weights))

    @cached_property
    def inverted(self) -> SlotArrays:
        return SlotArrays(*map(frozen, invert(self.indptr, self.slots, self.weights)))


@dataclass(frozen=True, eq=False)
class Idf:
    """The inverse document frequency by slot."""

    table: F32  # [SLOTS]

    def __post_init__(self) -> None:
        table = self.table
        if table.shape != (SLOTS,) or table.dtype != np.float32:
            raise InputError(f"idf: {table.dtype} {list(table.shape)}, expected float32 [{SLOTS}]")
        if not (np.isfinite(table).all() and (table >= 0).all()):
            raise InputError("idf: every weight must be finite and at least 0")

    @classmethod
    def fit(cls, texts: Iterable[Iterable[str]]) -> Self:
        """The idf of the words of these texts: log((texts + 1) / (texts with the word + 1))."""
        count, having = 0, np.zeros(SLOTS, np.int64)
        for words in texts:
            count += 1
            having[list({slot(word) for word in words} - {NO_SLOT})] += 1
        return cls((log(count + 1) - np.log(having + 1)).clip(min=0).astype(np.float32))


def post_rows(slots: I32, idf: F32, offsets: I64) -> SparseRows:
    """Compute the unit rows of posts, weighted (1 + log tf)·idf."""
    return word_rows(slots, idf, offsets, len(slots))


def article_rows(slots: I32, idf: F32, offsets: I64, lead: int) -> SparseRows:
    """Compute the unit rows of articles: tf is bounded, and the first words count twice."""
    position = np.arange(len(slots)) - np.repeat(offsets[:-1], np.diff(offsets))
    return word_rows(slots, np.where(position < lead, 2 * idf, idf), offsets, MAX_REPEATS)


def word_rows(slots: I32, weights: F32, offsets: I64, most: int) -> SparseRows:
    """Compute unit rows: each slot's highest weight times 1 + log min(tf, most)."""
    indptr, slots, weights = map(frozen, merge_slots(slots, weights, offsets, most))
    return SparseRows(indptr, slots, frozen(unit_weights(indptr, weights)))


@jit()
def well_formed(indptr: I64, slots: I32, weights: F32) -> bool:
    """Whether these arrays are sparse rows with ascending slots and finite weights."""
    if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(slots):
        return False
    if len(slots) != len(weights):
        return False
    for row in range(len(indptr) - 1):
        if not 0 <= indptr[row] <= indptr[row + 1] <= len(slots):
            return False
        last = -1
        for e in range(indptr[row], indptr[row + 1]):
            if not last < slots[e] < SLOTS or not np.isfinite(weights[e]):
                return False
            last = slots[e]
    return True


@jit()
def unit_weights(indptr: I64, weights: F32) -> F32:
    """The weights with every row scaled to length 1, summed up in float64."""
    out = weights.copy()
    for row in range(len(indptr) - 1):
        square = 0.0
        for e in range(indptr[row], indptr[row + 1]):
            square += np.float64(weights[e]) ** 2
        length = np.sqrt(square)
        if length > 0:
            for e in range(indptr[row], indptr[row + 1]):
                out[e] = weights[e] / length
    return out


@jit()
def sort_by_slot(slots: I32, idf: F32) -> None:
    """Sort both arrays by slot, in place. Shell sort, as it compiles fast."""
    for gap in SHELL_GAPS:
        for i in range(gap, len(slots)):
            this_slot, this_idf, place = slots[i], idf[i], i
            while place >= gap and slots[place - gap] > this_slot:
                slots[place], idf[place] = slots[place - gap], idf[place - gap]
                place -= gap
            slots[place], idf[place] = this_slot, this_idf


@jit()
def merge_slots(slots: I32, idf: F32, offsets: I64, most: int) -> tuple[I64, I32, F32]:
    """Merge equal slots: the highest weight times 1 + log min(tf, most)."""
    indptr, sorted_slots, weights = np.zeros_like(offsets), slots.copy(), idf.copy()
    end = 0
    for text in range(len(offsets) - 1):
        first, stop = offsets[text], offsets[text + 1]
        sort_by_slot(sorted_slots[first:stop], weights[first:stop])
        while first < stop:
            last, weight = first + 1, weights[first]
            while last < stop and sorted_slots[last] == sorted_slots[first]:
                weight = max(weight, weights[last])
                last += 1
            if weight > 0:
                times = min(last - first, most)
                sorted_slots[end], weights[end] = sorted_slots[first], (1 + np.log(times)) * weight
                end += 1
            first = last
        indptr[text + 1] = end
    return indptr, sorted_slots[:end].copy(), weights[:end].copy()


@jit()
def invert(indptr: I64, slots: I32, weights: F32) -> tuple[I32, I32, F32]:
    """The entries ordered by slot, and by row within a slot: starts, rows, weights."""
    starts = np.zeros(SLOTS + 1, np.int32)
    for e in range(len(slots)):
        starts[slots[e] + 1] += 1
    for place in range(SLOTS):
        starts[place + 1] += starts[place]
    free = starts[:-1].copy()
    rows, by_slot = np.empty_like(slots), np.empty_like(weights)
    for row in range(len(indptr) - 1):
        for e in range(indptr[row], indptr[row + 1]):
            at = free[slots[e]]
            free[slots[e]] += 1
            rows[at], by_slot[at] = row, weights[e]
    return starts, rows, by_slot


@jit()
def write_products(rows: Any, others: Any, out: Any) -> None:
    """Write the products of all pairs of rows, summed in order of slots in float64."""
    for row in range(len(rows.indptr) - 1):
        total = np.zeros(out.shape[1], np.float64)
        for e in range(rows.indptr[row], rows.indptr[row + 1]):
            slot, weight = rows.slots[e], np.float64(rows.weights[e])
            for at in range(others.starts[slot], others.starts[slot + 1]):
                total[others.rows[at]] += weight * others.weights[at]
        for other in range(len(total)):
            out[row, other] = total[other]
