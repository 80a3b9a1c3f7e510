"""The rows of `newsift bench encoder`: one entry each, all run interleaved."""

from collections.abc import Callable, Iterator
from typing import NamedTuple

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


def published(work: Workload, threads: int) -> Run:
    """The published form, with its padding made anew for every batch."""
    from bench.encoder.published import Published

    return over_ids(work, Published(work.weights(False)))


def torch_path(work: Workload, threads: int) -> Run:
    """The ragged form in torch."""
    from encoder.backends.torch_backend import TorchBackend

    return over_ids(work, TorchBackend(work.weights(False), "cpu"))


def kernel(work: Workload, threads: int) -> Run:
    """The kernel, in the paper's settings."""
    return over_ids(work, work.kernel(False, threads))


def gated(work: Workload, threads: int) -> Run:
    """The kernel as the default model needs it."""
    return over_ids(work, work.kernel(True, threads))


def whole(work: Workload, threads: int) -> Run:
    """All of newsift, text in, both halves of the embedding out, on texts it has not seen."""
    return over_texts(work.batches(work.posts, BATCH), work.encoder(threads).posts)


def again(work: Workload, threads: int) -> Run:
    """All of newsift on texts whose every word it remembers."""
    return over_texts(work.batches(work.earlier, BATCH), work.encoder(threads).posts)


def minilm(work: Workload, threads: int) -> Run:
    """MiniLM as most people run it."""
    from bench.encoder.peers import minilm

    return over_texts(work.batches(work.posts, work.peer_posts), minilm().texts)


def minilm_int8(work: Workload, threads: int) -> Run:
    """MiniLM as fast as a CPU runs it."""
    from bench.encoder.peers import MiniLmInt8, check_int8

    model = MiniLmInt8(threads)
    check_int8(model)
    return over_texts(work.batches(work.posts, work.peer_posts), model.texts)


ROWS = {
    "published": Row("as published: padded, eager, bisection", published),
    "torch": Row("torch: ids → vectors", torch_path),
    "kernel": Row("kernel: ids → vectors", kernel),
    "gated": Row("kernel with residual: ids → vectors", gated),
    "whole": Row("whole encoder: text → embeddings", whole),
    "again": Row("whole encoder, texts it has read before", again),
    "minilm": Row("MiniLM, sentence-transformers", minilm),
    "int8": Row("MiniLM, ONNX Runtime int8", minilm_int8),
}
REFERENCES = {"published": "× as published", "minilm": "× MiniLM"}
