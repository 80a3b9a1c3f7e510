"""What the kernel reads, and where it works: two tuples of flat arrays."""

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from encoder.backends.kernel.row_layout import Shape
from encoder.model.config import MAX_TOKENS
from encoder.model.weights import F32, I32, I64
from encoder.simd.tile import LANES, up

I16 = NDArray[np.int16]
LINE = 64  # bytes; a register that straddles two cache lines costs two loads
TEXTS = 24  # texts whose matrix products are done together; a multiple of every Tile's rows


class FlatTexts(NamedTuple):
    """Texts side by side, and what weighs the residual, where there is one."""

    ids: I32  # text i is ids[offsets[i]:offsets[i + 1]]
    offsets: I64
    number: int
    residual: bool
    gates: F32  # [vocabulary]
    places: F32  # by position


class Text(NamedTuple):
    """The tokens of one text."""

    ids: Any
    length: int


class Tables(NamedTuple):
    """The folded parameters; `table` has a row for each token of the vocabulary."""

    table: I16  # [vocabulary · row]
    halves: I32  # the pairs (1, 0) and (0, 1), read from here lest LLVM undo their products
    logit_scale: np.float32
    node_scale: F32  # [width]
    node_bias: F32  # [width]
    sum_scale: F32  # [width + query_width], of embedding and star query
    ring_scale: F32  # [slots · 16], α−1 of each head in turn
    star_scale: F32  # [banks · 16], α−1
    idle: F32  # [banks · 16], a logit for lanes without a head
    keys: F32  # [heads, panels of head_dim × width]
    values: F32  # [heads, panels of dim × value_width]
    output: F32  # panels of inner × width
    output_bias: F32  # [width]
    gain: F32  # [width]; 1 without the residual


class Space(NamedTuple):
    """The working memory of one thread, enough for any text."""

    mean: F32  # [TEXTS, width + query_width], of the embeddings, and of the star queries
    residual: F32  # [TEXTS, width]
    probe: F32  # [TEXTS, slots, width], what a node is multiplied by for its star logit
    peak: F32  # [TEXTS, width], the maximum over the nodes
    mixed: F32  # [heads, TEXTS, width], what a head of the star attends to
    value: F32  # [TEXTS, inner + value_width]
    star: F32  # [TEXTS, width]
    relay: I16  # [keys | values] of the relay
    logits: F32  # [entries, rows]
    weights: I16  # [entries, rows]
    weight_pairs: I32  # the same memory, two heads at a time
    places: I64  # addresses of values
    shares: I32  # their pairs of weights
    nodes: F32  # [tokens, width]
    star_logits: F32  # [banks, 1 + tokens, 16]
    powers: F32  # [1 + tokens, 16]
    slopes: F32  # [1 + tokens, 16]


def aligned(size: int, dtype: Any = np.float32) -> NDArray[Any]:
    """Zeros that begin at a cache line."""
    width = np.dtype(dtype).itemsize
    raw = np.zeros(size * width + LINE, np.uint8)
    begin = -raw.ctypes.data % LINE
    return raw[begin : begin + size * width].view(dtype)


def allocate(shape: Shape) -> Space:
    """Fresh working memory for models of this shape.

    All of it is one array: pieces allocated apart begin at the same place of a page each, and then
    compete for the same few lines of the cache.
    """
    tokens, width, rows = MAX_TOKENS, shape.width, MAX_TOKENS * shape.slots + 2 * LANES
    f32, i16, i32, i64 = (np.dtype(name) for name in ("f4", "i2", "i4", "i8"))
    wanted: dict[str, tuple[int, np.dtype[Any]]] = {
        "mean": (TEXTS * (width + shape.query_width), f32),
        "residual": (TEXTS * width, f32),
        "probe": (TEXTS * shape.slots * width, f32),
        "peak": (TEXTS * width, f32),
        "mixed": (shape.heads * TEXTS * width, f32),
        "value": (TEXTS * (shape.inner + shape.value_width), f32),
        "star": (TEXTS * width, f32),
        "relay": (shape.embedding_at - shape.key_at, i16),
        "places": (shape.entries * shape.pairs, i64),
        "shares": (shape.entries * shape.pairs, i32),
        "logits": (shape.entries * rows, f32),
        "weights": (shape.entries * rows, i16),
        "nodes": (tokens * width, f32),
        "star_logits": (shape.banks * (1 + tokens) * LANES, f32),
        "powers": ((1 + tokens) * LANES, f32),
        "slopes": ((1 + tokens) * LANES, f32),
    }
    sizes = [up(count * kind.itemsize, LINE) for count, kind in wanted.values()]
    room, ends = aligned(sum(sizes), np.uint8), np.cumsum(sizes)
    pieces = {
        name: room[end - size : end].view(kind)
        for (name, (_, kind)), size, end in zip(wanted.items(), sizes, ends, strict=True)
    }
    return Space(**pieces, weight_pairs=pieces["weights"].view(np.int32))


class Spaces:
    """Working memory that is used again, as fresh memory costs as much as a post."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape
        self._idle: deque[Space] = deque()

    @contextmanager
    def borrowed(self) -> Iterator[Space]:
        """Working memory that nobody else uses meanwhile."""
        try:
            space = self._idle.pop()
        except IndexError:
            space = allocate(self._shape)
        try:
            yield space
        finally:
            self._idle.append(space)
