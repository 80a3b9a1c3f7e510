"""Explanations by the reference: torch's own way back through it, for a model of any depth.

With all attention and the choices of max-pooling held fixed, y is affine in the token vectors, and
a token's part of a product with y is its own vector times the gradient there.
"""

import os
from threading import Lock

import numpy as np
import torch
from torch import Tensor, nn

from encoder.model.config import Side
from encoder.model.siamese import Siamese
from encoder.model.star import Attention
from encoder.model.weights import F32, I32, I64, Weights
from encoder.score.lexical import spans
from encoder.support.threads import PerProcess

PAIRS_AT_ONCE = 32  # of long texts, so many are a few hundred MB


class ReferenceReader:
    """Reads texts with the model as it is trained, and keeps what they were read with."""

    def __init__(self, weights: Weights) -> None:
        self._model = Siamese.from_weights(weights).requires_grad_(False)
        self._seen: list[Tensor] = []
        for module in self._model.modules():
            if isinstance(module, Attention):
                module.shares.register_forward_hook(self._hold)
        self._process, self._lock = os.getpid(), PerProcess(self._enter_process)

    def looks(self, ids: I32, side: Side) -> tuple[F32, F32]:
        """The attention of the last ring [n, h, 2c+2] and star [h, 1+n] over one text."""
        with self._lock.get():
            self._read(ids, np.array([0, len(ids)]), side)
            ring, star = self._seen[-2:]
        *window, first, relay = ring  # 2c+3 times [n, h]
        window[len(window) // 2] = window[len(window) // 2] + first
        return torch.stack([*window, relay], 2).numpy(), star.T.numpy()

    def attention(self, ids: I32, side: Side) -> F32:
        """How much the last star looked at each token: weights ≥ 0 that sum to 1, many 0 [n]."""
        if len(ids) == 0:
            return np.zeros(0, np.float32)
        ring, star = self.looks(ids, side)
        for looked in (star[:, 1:].sum(axis=0), received(ring)):
            if looked.sum() > 0:
                return np.asarray(looked / looked.sum(), np.float32)
        return np.full(len(ids), 1 / len(ids), np.float32)

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's y with a unit row, pair after pair.

        For pairs [pairs, 2] of a text, none without tokens, and a row; y's length is held fixed.
        """
        found = [np.zeros(0, np.float32)]
        for first in range(0, len(pairs), PAIRS_AT_ONCE):
            text, row = pairs[first : first + PAIRS_AT_ONCE].T
            lengths = np.diff(offsets)[text]
            there = ids[spans(offsets[text], lengths)]
            found.append(self._parts(there, np.append(0, np.cumsum(lengths)), side, rows[row]))
        return np.concatenate(found)

    def _parts(self, ids: I32, offsets: I64, side: Side, rows: F32) -> F32:
        """The parts of texts with a row each."""
        with self._lock.get():
            tokens, y = self._read(ids, offsets, side)  # [N, d], [n, d]
            length = y.norm(dim=1, keepdim=True).clamp(min=torch.finfo(y.dtype).tiny)
            (gradient,) = torch.autograd.grad(y, tokens, torch.tensor(rows) / length)
        return (gradient * tokens.detach()).sum(1).numpy()

    def _read(self, ids: I32, offsets: I64, side: Side) -> tuple[Tensor, Tensor]:
        """The token vectors [N, d] of texts, and y [n, d], which has a way back to them."""
        self._seen.clear()
        known = torch.tensor(ids, dtype=torch.int64)
        tokens = self._model.embedding[known].requires_grad_()
        return tokens, self._model.read(tokens, known, torch.tensor(offsets), side)

    def _hold(self, _module: nn.Module, _given: object, p: Tensor) -> Tensor:
        """Keep what an attention looked at, and let no gradient through it."""
        self._seen.append(p.detach())
        return self._seen[-1]

    def _enter_process(self) -> Lock:
        if os.getpid() != self._process:
            torch.set_num_threads(1)  # OpenMP waits for ever for its threads in the parent
        return Lock()


def received(ring: F32) -> F32:
    """The attention of the ring [n, h, 2c+2] that each token drew on itself: [n]."""
    window = ring[:, :, :-1].sum(axis=1)  # [n, 2c+1]
    n, width = window.shape
    there = np.arange(n)[:, None] + np.arange(width) - width // 2
    drawn = np.zeros(n, np.float32)
    np.add.at(drawn, there.clip(0, n - 1), window)  # beyond the text it is 0
    return drawn
