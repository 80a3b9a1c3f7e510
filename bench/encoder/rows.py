"""The rows of `newsift bench encoder`: one entry each, all run interleaved."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from bench.encoder.peers import int8, minilm
from bench.encoder.workload import BATCH, Forward, Workload
from bench.measure import Run
from encoder.model.config import Side


class Row(NamedTuple):
    """One line of the table: what is measured, and how it is made ready for so many threads."""

    name: str
    prepare: Callable[[Workload, int], Run]


def over_ids(work: Workload, path: Forward) -> Run:
    """A run that takes the next batch of ids through a path."""
    batches = work.id_batches(BATCH)

    def run() -> int:
        ids, offsets = next(batches)
        path.forward(ids, offsets, Side.POST)
        return len(offsets) - 1

    return run


def over_texts(batches: Iterator[list[str]], embed: Callable[[list[str]], object]) -> Run:
    """A run that takes the next batch of texts through a function."""

    def run() -> int:
        texts = next(batches)
        embed(texts)
        return len(texts)

    return run


def published(work: Workload) -> Forward:
    """The published form, with its padding made anew for every batch."""
    from bench.encoder.published import Published

    return Published(work.weights(False))


def torch_path(work: Workload) -> Forward:
    """The ragged form in torch."""
    from encoder.backends.torch_backend import TorchBackend

    return TorchBackend(work.weights(False), "cpu")


def whole(work: Workload, posts: list[str], threads: int) -> Run:
    """All of newsift, text in, both halves of the embedding out."""
    return over_texts(work.batches(posts, BATCH), work.encoder(threads).posts)


def peer(work: Workload, embed: Callable[[list[str]], object]) -> Run:
    """Another's model, on fewer posts at a time."""
    return over_texts(work.batches(work.posts, work.peer_posts), embed)


ROWS = {
    "published": Row(
        "as published: padded, eager, bisection", lambda work, _: over_ids(work, published(work))
    ),
    "torch": Row("torch: ids → vectors", lambda work, _: over_ids(work, torch_path(work))),
    "kernel": Row("kernel: ids → vectors", lambda work, t: over_ids(work, work.kernel(False, t))),
    "gated": Row(
        "kernel with residual: ids → vectors", lambda work, t: over_ids(work, work.kernel(True, t))
    ),
    "whole": Row("whole encoder: text → embeddings", lambda work, t: whole(work, work.posts, t)),
    "again": Row(
        "whole encoder, texts it has read before", lambda work, t: whole(work, work.earlier, t)
    ),
    "minilm": Row("MiniLM, sentence-transformers", lambda work, _: peer(work, minilm().texts)),
    "int8": Row("MiniLM, ONNX Runtime int8", lambda work, t: peer(work, int8(t).texts)),
}
REFERENCES = {"published": "× as published", "minilm": "× MiniLM"}
