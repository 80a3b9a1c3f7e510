"""What the kernel reads, and where it works: two tuples of flat arrays."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from encoder.config import MAX_TOKENS
from encoder.kernel.shape import Shape
from encoder.kernel.tile import LANES, up
from encoder.weights import F32, I32, I64

I16 = NDArray[np.int16]
LINE = 64  # bytes; a register that straddles two cache lines costs two loads
TEXTS = 24  # texts whose matrix products are done together; a multiple of every Tile's rows


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
    """Fresh working memory for models of this shape."""
    tokens, width = MAX_TOKENS, shape.width
    rows = tokens * shape.slots + 2 * LANES
    weights = aligned(shape.entries * rows, np.int16)
    return Space(
        mean=aligned(TEXTS * (width + shape.query_width)),
        residual=aligned(TEXTS * width),
        probe=aligned(TEXTS * shape.slots * width),
        peak=aligned(TEXTS * width),
        mixed=aligned(shape.heads * TEXTS * width),
        value=aligned(TEXTS * up(shape.inner + shape.value_width, LANES)),
        star=aligned(TEXTS * width),
        relay=aligned(shape.embedding_at - shape.key_at, np.int16),
        logits=aligned(shape.entries * rows),
        weights=weights,
        weight_pairs=weights.view(np.int32),
        places=aligned(shape.entries * shape.pairs, np.int64),
        shares=aligned(shape.entries * shape.pairs, np.int32),
        nodes=aligned(tokens * width),
        star_logits=aligned(shape.banks * (1 + tokens) * LANES),
        powers=aligned((1 + tokens) * LANES),
        slopes=aligned((1 + tokens) * LANES),
    )
