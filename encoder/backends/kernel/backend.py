"""The kernel as a backend: token ids in, vectors out, in the thread that calls."""

import numpy as np

from encoder.backends.asked import refuse_outside
from encoder.backends.kernel import row_layout as limits
from encoder.backends.kernel.arrays import FlatTexts, Spaces
from encoder.backends.kernel.encode import encode
from encoder.backends.kernel.row_layout import Shape
from encoder.backends.kernel.tables import make_tables, residual_weights
from encoder.errors import InputError
from encoder.model.config import MAX_TOKENS, AstConfig, Side
from encoder.model.weights import F32, I32, I64, Weights
from encoder.support.readonly import fixed


def supported(config: AstConfig) -> str | None:
    """Why the kernel cannot run models with these settings, or nothing if it can."""
    if config.layers != 1:
        return f"layers: {config.layers}; tables fold for one layer only"
    for key, low, high in (
        ("window", 1, limits.MAX_WINDOW),
        ("heads", 1, limits.MAX_HEADS),
        ("head_dim", 1, limits.MAX_HEAD_DIM),
        ("dim", 1, limits.MAX_DIM),
    ):
        value = getattr(config, key)
        if not low <= value <= high:
            return f"{key}: {value} is not from {low} to {high}"
    return None


class KernelBackend:
    """The forward pass of one model; safe to call from several threads at once, as many as told.

    Weights that are named have their table in memory once for all processes of a host.
    """

    def __init__(self, weights: Weights, threads: int = 1, name: str = "") -> None:
        reason = supported(weights.config)
        if reason is not None:
            raise InputError(f"{reason}; use the torch backend")
        if threads < 1:
            raise InputError(f"threads: {threads} is not a whole number from 1")
        self.threads, self._dim = threads, weights.config.dim
        self._vocabulary = len(weights.embedding)
        self._shape = Shape.of(weights.config)
        self.tables = make_tables(self._shape, weights, threads, name)
        self._spaces = Spaces(self._shape)
        self._residual = residual_weights(weights)

    def forward(self, ids: I32, offsets: I64, side: Side) -> F32:
        """y of every text, not normalised [n, dim]; text i is ids[offsets[i]:offsets[i + 1]]."""
        ids, offsets = fixed(np.asarray(ids, np.int32)), fixed(np.asarray(offsets, np.int64))
        refuse_outside(ids, offsets, self._vocabulary)  # the compiled code checks no index
        longest = np.diff(offsets).max(initial=0)
        if longest > MAX_TOKENS:
            raise InputError(f"a text of {longest} tokens; cut it to {MAX_TOKENS}")
        out = np.empty((len(offsets) - 1, self._dim), np.float32)
        texts = FlatTexts(ids, offsets, len(out), *self._residual[side])
        with self._spaces.borrowed() as space:
            encode(self._shape, self.tables, space, texts, out)
        return out
