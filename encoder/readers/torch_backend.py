"""The torch backend, for a GPU and for a CPU that cannot run the kernel.

A batch is divided into parts that bound the memory.
"""

import os
import threading

import numpy as np
import torch
from torch import nn

from encoder.errors import DeviceError
from encoder.model.config import Side
from encoder.model.siamese import Siamese
from encoder.model.weights import F32, I32, I64, Weights
from encoder.readers.validate import check_tokens
from encoder.support.threads import PerProcess

TOKENS_AT_ONCE = {"cuda": 2**15, "cpu": 2**11}  # the CPU's fit its cache
MIN_TOKENS = 64


class TorchBackend:
    """Computes vectors with torch on one device."""

    def __init__(self, weights: Weights, device: str) -> None:
        self._device = torch.device(device)
        if self._device.type == "cuda" and not torch.cuda.is_available():
            raise DeviceError(f"device: {device} does not answer; use auto or cpu")
        self._dim, self._vocabulary = weights.config.dim, weights.vocabulary
        self.model: nn.Module = Siamese.from_weights(weights).requires_grad_(False).to(self._device)
        self.tokens_at_once = TOKENS_AT_ONCE[self._device.type]
        self._process, self._lock = os.getpid(), PerProcess(self._enter_process)

    def forward(self, ids: I32, offsets: I64, side: Side) -> F32:
        """y [n, d], not normalised, of the texts ids[offsets[i] : offsets[i + 1]]."""
        check_tokens(ids, offsets, self._vocabulary)
        y, first = np.zeros((len(offsets) - 1, self._dim), np.float32), 0
        with self._lock.get(), torch.inference_mode():
            while first < len(y):
                last = first + count_fitting(offsets[first:], self.tokens_at_once)
                try:
                    y[first:last] = self._part(ids, offsets[first : last + 1], side)
                    first = last
                except torch.OutOfMemoryError as error:
                    self._shrink_parts(error)
        return y

    def _part(self, ids: I32, offsets: I64, side: Side) -> F32:
        """Compute the vectors of one part: [n, d]."""
        tokens = torch.tensor(ids[offsets[0] : offsets[-1]], dtype=torch.int64)
        starts = torch.tensor(offsets - offsets[0])
        y = self.model(tokens.to(self._device), starts.to(self._device), side)
        return np.asarray(y.cpu())

    def _shrink_parts(self, error: Exception) -> None:
        """Halve the part size after the device ran out of memory."""
        if self.tokens_at_once <= MIN_TOKENS:
            raise DeviceError(f"device: {self._device} has too little free memory") from error
        self.tokens_at_once //= 2
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
            torch.cuda.empty_cache()

    def _enter_process(self) -> threading.Lock:
        """Create the lock of this process; a forked child may use one thread and no GPU."""
        if os.getpid() != self._process:
            if self._device.type == "cuda":
                raise DeviceError("device: a forked process has no GPU; start processes by spawn")
            torch.set_num_threads(1)  # OpenMP would wait for ever for the parent's threads
        return threading.Lock()


def count_fitting(offsets: I64, most: int) -> int:
    """Count the leading texts that have at most `most` tokens in total; at least one."""
    count = int(np.searchsorted(offsets, offsets[0] + most, "right")) - 1
    return min(max(count, 1), most)
