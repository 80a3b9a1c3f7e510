"""How far every path lies from the same model in float64, on real posts."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.measure import NotAvailable
from bench.workload import Forward, IdBatch, Workload, cut
from encoder.model.config import Side
from encoder.model.weights import Weights

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Deviation:
    """The largest error of one path over all texts and all pairs of them."""

    path: str
    embedding: float
    score: float


def deviations(work: Workload, posts: int) -> list[Deviation | tuple[str, str]]:
    """Every path against float64; where one does not run here, its name and the reason."""
    batch = cut(work.posts, 0, min(posts, len(work.posts.offsets) - 1))
    found: list[Deviation | tuple[str, str]] = []
    for weights, name, make in paths(work):
        try:
            path = make()
        except NotAvailable as error:
            found.append((name, str(error)))
            continue
        exact = exact_vectors(weights, batch)
        vectors = np.asarray(path.forward(*batch, Side.POST), np.float64)
        found.append(deviation(name, vectors, exact))
    return found


def paths(work: Workload) -> list[tuple[Weights, str, Callable[[], Forward]]]:
    """The paths that are compared, each with the weights that it computes with."""
    from bench.published import Published
    from encoder.backends.torch_backend import TorchBackend

    return [
        (work.plain, "as published", lambda: Published(work.plain)),
        (work.plain, "torch", lambda: work.torch()),
        (work.plain, "kernel", lambda: work.kernel(1)),
        (work.gated, "torch with residual", lambda: TorchBackend(work.gated, "cpu")),
        (work.gated, "kernel with residual", lambda: work.kernel(1, residual=True)),
    ]


def exact_vectors(weights: Weights, batch: IdBatch) -> F64:
    """The vectors in float64 by the readable reference, which the tests hold to the oracle."""
    import torch

    from encoder.model.siamese import Siamese

    ids, offsets = (torch.from_numpy(a).long() for a in batch)
    with torch.inference_mode():
        vectors: F64 = (
            Siamese.from_weights(weights).double().eval()(ids, offsets, Side.POST).numpy()
        )
    return vectors


def deviation(path: str, vectors: F64, exact: F64) -> Deviation:
    """The largest relative distance of a vector, and of a cosine between any two."""
    lengths = np.linalg.norm(exact, axis=1)
    there = lengths > 0
    distance = np.linalg.norm(vectors - exact, axis=1)
    a, b = unit(vectors), unit(exact)
    return Deviation(
        path,
        float((distance[there] / lengths[there]).max(initial=0)),
        float(np.abs(a @ a.T - b @ b.T).max(initial=0)),
    )


def unit(rows: F64) -> F64:
    """Rows of length one; a zero row stays zero."""
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    scaled: F64 = rows / np.where(lengths > 0, lengths, 1)
    return scaled
