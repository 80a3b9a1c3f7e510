"""Part `gpu` of `newsift bench encoder`: the model on a GPU beside the kernel on one CPU thread."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch

from bench.measure import NotAvailable, ResultTable, rate_of
from encoder import Encoder, load
from encoder.embeddings import unit_rows
from encoder.model.config import Side
from encoder.model.weights import F32
from encoder.text.tokenizer import Tokens

SIZES = (1, 64, 4096, 16_384, 65_536)  # posts in a batch
CHECK_POSTS = 4096
SINGLE_POSTS = 64  # that are encoded one by one


def compare_with_gpu(
    cpu: Encoder, model: str, posts: Sequence[str], tokens: Tokens, seconds: float
) -> ResultTable:
    """Rates by batch size, from ids to vectors and from texts to embeddings, and differences."""
    if not torch.cuda.is_available():
        raise NotAvailable("gpu: no CUDA GPU answers on this machine")
    with load(model, device="cuda") as gpu:
        rows = [
            (name, size, *rates(enc, posts[:size], tokens, seconds))
            for size in SIZES
            if size <= len(posts)
            for name, enc in (("kernel, 1 thread", cpu), ("GPU", gpu))
        ]
        remarks = [torch.cuda.get_device_name(), *bit_checks(cpu, gpu, tokens)]
    header = ("path", "batch", "ids → vectors, posts/s", "text → embeddings, posts/s")
    return ResultTable("gpu", "GPU beside the CPU kernel", header, rows, remarks)


def rates(
    enc: Encoder, posts: Sequence[str], tokens: Tokens, seconds: float
) -> tuple[float, float]:
    """The posts a second from ids to vectors and from texts to embeddings, after a warm-up each."""

    def from_ids() -> int:
        return len(vectors(enc, tokens, len(posts)))

    def from_texts() -> int:
        return len(enc.posts(posts))

    from_ids()
    from_texts()
    return rate_of(from_ids, seconds), rate_of(from_texts, seconds)


def vectors(enc: Encoder, tokens: Tokens, size: int) -> F32:
    """The vectors of the first texts, not normalised."""
    offsets = tokens.offsets[: size + 1]
    return enc._backend.forward(tokens.ids[: offsets[-1]], offsets, Side.POST)


def bit_checks(cpu: Encoder, gpu: Encoder, tokens: Tokens) -> list[str]:
    """How far the GPU is from the kernel, and whether its bits depend on the run or the batch."""
    count = min(CHECK_POSTS, len(tokens.offsets) - 1)
    first, second = vectors(gpu, tokens, count), vectors(gpu, tokens, count)
    error = np.abs(unit_rows(vectors(cpu, tokens, count)) - unit_rows(first)).max()
    bounds = pairwise(tokens.offsets[: SINGLE_POSTS + 1].tolist())
    single = [
        gpu._backend.forward(tokens.ids[low:high], np.array([0, high - low]), Side.POST)
        for low, high in bounds
    ]
    same_single = np.concatenate(single).tobytes() == first[: len(single)].tobytes()
    return [
        f"largest difference of a unit vector to the kernel's: {error:.1e}",
        f"same bits in two runs: {'yes' if first.tobytes() == second.tobytes() else 'no'}",
        f"same bits alone as in a batch: {'yes' if same_single else 'no'}",
    ]
