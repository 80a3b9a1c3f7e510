"""How far every path lies from the same model in float64, on real posts."""

import numpy as np
from numpy.typing import NDArray

from bench.encoder.workload import IdBatch, Workload, cut
from encoder.backends.choose import Backend
from encoder.backends.gated_mean import GatedMeanKernel
from encoder.model.config import Side
from encoder.model.weights import Weights

F64 = NDArray[np.float64]


Deviation = tuple[str, float, float]
"""A path, and its largest error of a vector and of a score, over all texts and their pairs."""


def deviations(work: Workload, posts: int) -> list[Deviation]:
    """Every path against float64: torch with a star, the kernel with the gated mean."""
    from encoder.backends.torch_backend import TorchBackend

    batch = cut(work.tokens, 0, min(posts, len(work.posts)))
    found = []
    star, gated = work.weights("paper"), work.weights("none")
    paths: list[tuple[str, Weights, Backend]] = [
        ("torch", star, TorchBackend(star, "cpu")), ("kernel", gated, GatedMeanKernel(gated)),
    ]  # fmt: skip
    for name, weights, path in paths:
        vectors = np.asarray(path.forward(*batch, Side.POST), np.float64)
        found.append(deviation(name, vectors, exact_vectors(weights, batch)))
    return found


def exact_vectors(weights: Weights, batch: IdBatch) -> F64:
    """The vectors in float64 by the readable reference, which the tests hold to the oracle."""
    import torch

    from encoder.model.siamese import Siamese

    ids, offsets = (torch.from_numpy(a).long() for a in batch)
    model = Siamese.from_weights(weights).double().eval()
    with torch.inference_mode():
        vectors: F64 = model(ids, offsets, Side.POST).numpy()
    return vectors


def deviation(path: str, vectors: F64, exact: F64) -> Deviation:
    """The largest relative distance of a vector, and of a cosine between any two."""
    lengths = np.linalg.norm(exact, axis=1)
    there = lengths > 0
    distance = np.linalg.norm(vectors - exact, axis=1)
    a, b = (x[there] / np.linalg.norm(x[there], axis=1, keepdims=True) for x in (vectors, exact))
    return (
        path,
        float((distance[there] / lengths[there]).max(initial=0)),
        float(np.abs(a @ a.T - b @ b.T).max(initial=0)),
    )
