"""The torch path of serving, for a GPU, and for a CPU that cannot run the kernel.

A batch is cut into parts of texts of about the same length. Their ids travel to the device on one
side stream and their vectors back on another, while the parts between are computed.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import torch
from torch import Tensor

from encoder.backends.asked import refuse_outside
from encoder.backends.torch_folded import Batch, Folded, Layered, Model
from encoder.errors import DeviceError
from encoder.model.config import Side
from encoder.model.weights import F32, I32, I64, Weights
from encoder.support.threads import PerProcess

MOST_TEXTS = 2**16
MOST_TOKENS = 2**22
TOKENS_AT_ONCE = {"cuda": 2**16, "cpu": 2**11}  # a CPU's fit its cache
FEWEST_TOKENS = 64


class Lane:
    """A side stream for copies in one direction; on a CPU, where nothing overlaps, plain copies."""

    def __init__(self, device: torch.device) -> None:
        self.stream: torch.cuda.Stream | None = None
        if device.type == "cuda":
            self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def follow(self) -> None:
        """What is copied from now on comes after all that has been queued for computing."""
        if self.stream is not None:
            self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))

    def lead(self) -> None:
        """What is computed from now on comes after all that has been queued for copying."""
        if self.stream is not None:
            torch.cuda.current_stream(self.stream.device).wait_stream(self.stream)

    def copy(self, target: Tensor, source: Tensor) -> None:
        """Queue one copy."""
        with nullcontext() if self.stream is None else torch.cuda.stream(self.stream):
            target.copy_(source, non_blocking=True)

    def finish(self) -> None:
        """Wait until everything queued is done."""
        if self.stream is not None:
            self.stream.synchronize()


class Staging:
    """Page-locked host memory that is kept from batch to batch and grows with the largest."""

    def __init__(self, device: torch.device) -> None:
        self.pinned = device.type == "cuda"
        self.kept: dict[torch.dtype, Tensor] = {}

    def take(self, size: int, dtype: torch.dtype) -> Tensor:
        """This many values; what was taken before in this type is given up."""
        if len(self.kept.get(dtype, ())) < size:
            self.kept[dtype] = torch.empty(size + size // 4, dtype=dtype, pin_memory=self.pinned)
        return self.kept[dtype][:size]


class TorchBackend:
    """Token ids in, vectors out, by torch on one device."""

    def __init__(self, weights: Weights, device: str) -> None:
        self.device = torch.device(device)
        if self.device.type == "cuda" and not torch.cuda.is_available():
            raise DeviceError(f"device: {device} does not answer; use auto or cpu")
        self.dim, self.vocabulary = weights.config.dim, len(weights.embedding)
        with torch.inference_mode():
            build = Folded if weights.config.layers == 1 else Layered
            self.model: Model = build(weights, self.device)
        self.up, self.down = Lane(self.device), Lane(self.device)
        self.staging = Staging(self.device)
        self.tokens_at_once = TOKENS_AT_ONCE[self.device.type]
        self.process, self.lock = os.getpid(), PerProcess(self.enter_process)

    def enter_process(self) -> threading.Lock:
        """The lock on what calls share; in a forked child after giving up what stayed behind."""
        if os.getpid() != self.process:
            if self.device.type == "cuda":
                raise DeviceError("device: a forked process has no GPU; start processes by spawn")
            torch.set_num_threads(1)  # OpenMP waits for ever for its threads in the parent
        return threading.Lock()

    def close(self) -> None:
        """Nothing has to end: the threads are torch's own."""

    def forward(self, ids: I32, offsets: I64, side: Side) -> F32:
        """y [n, d], not normalised, of the texts ids[offsets[i] : offsets[i + 1]]."""
        refuse_outside(ids, offsets, self.vocabulary)
        y = np.zeros((len(offsets) - 1, self.dim), np.float32)
        with self.lock.get(), torch.inference_mode():
            for first, last in stretches(offsets):
                self.stretch(y[first:last], ids, offsets[first : last + 1], side)
        return y

    def stretch(self, y: F32, ids: I32, offsets: I64, side: Side) -> None:
        """Fill y [n, d]; when the device's memory runs out, again in smaller parts."""
        while True:
            try:
                return self.attempt(y, ids, offsets, side)
            except torch.OutOfMemoryError as error:
                if self.tokens_at_once <= FEWEST_TOKENS:
                    raise DeviceError(
                        f"device: {self.device} has too little free memory"
                    ) from error
            self.tokens_at_once //= 2
            if self.device.type == "cuda":
                torch.cuda.synchronize(self.device)
                torch.cuda.empty_cache()

    def attempt(self, y: F32, ids: I32, offsets: I64, side: Side) -> None:
        """Copy, compute and copy back part by part, and wait once at the end."""
        lengths = np.diff(offsets)
        order, parts = plan(lengths, self.tokens_at_once)
        if not parts:
            return
        size = int(lengths.sum()) + len(order) + len(parts)
        host = self.staging.take(size, torch.int32)
        out = self.staging.take(len(order) * self.dim, torch.float32).view(-1, self.dim)
        there = torch.empty(size, dtype=torch.int32, device=self.device)
        results, last = [], 0
        self.up.follow()
        for start, end in parts:
            texts = order[start:end]
            at, middle = last, last + len(texts) + 1
            last = middle + int(lengths[texts].sum())
            write_part(host[at:last].numpy(), ids, offsets[texts], lengths[texts])
            self.up.copy(there[at:last], host[at:last])
            self.up.lead()
            batch = Batch(there[middle:last], there[at:middle], int(lengths[texts[-1]]))
            results.append(self.model(batch, side))  # kept until its copy is over
            self.down.follow()
            self.down.copy(out[start:end], results[-1])
        self.down.finish()
        y[order] = out.numpy()


def stretches(offsets: I64) -> Iterator[tuple[int, int]]:
    """Cut a batch of any size into stretches of texts that bound the memory for copies."""
    first, count = 0, len(offsets) - 1
    while first < count:
        fitting = int(np.searchsorted(offsets, offsets[first] + MOST_TOKENS, "right")) - 1
        last = min(max(fitting, first + 1), first + MOST_TEXTS, count)
        yield first, last
        first = last


def plan(lengths: I64, most: int) -> tuple[I64, list[tuple[int, int]]]:
    """The texts that have tokens, by length, in parts whose grid has at most so many places."""
    order = np.argsort(lengths, kind="stable")
    order = order[np.searchsorted(lengths[order], 1) :]
    parts, start = [], 0
    while start < len(order):
        ahead = lengths[order[start : start + most]]
        places = ahead * np.arange(1, len(ahead) + 1)
        end = start + max(1, int(np.searchsorted(places, most, "right")))
        parts.append((start, end))
        start = end
    return order, parts


def write_part(target: I32, ids: I32, starts: I64, lengths: I64) -> None:
    """Write a part as it travels: its n + 1 offsets, then its ids, text after text."""
    ends = np.cumsum(lengths)
    count = len(lengths)
    target[0], target[1 : count + 1] = 0, ends
    token = np.arange(int(ends[-1])) + np.repeat(starts - ends + lengths, lengths)
    np.take(ids, token, out=target[count + 1 :])
