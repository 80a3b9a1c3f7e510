"""The rows of `newsift bench encoder`: one entry each, all run interleaved."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import NamedTuple

from bench.encoder.published import Published
from bench.encoder.workload import BATCH, IdBatch, Workload
from bench.measure import NotAvailable, Run
from encoder.backends.choose import Backend
from encoder.backends.gated_mean import GatedMeanKernel
from encoder.errors import InputError
from encoder.model.config import Side
from encoder.support.threads import Crew
from train.teacher.minilm import Teacher

MINILM_BATCH, MINILM_POSTS = 32, 256


class Row(NamedTuple):
    """One line of the table: what is measured, and how it is made ready for so many threads."""

    name: str
    prepare: Callable[[Workload, int], Run]


def over_ids(work: Workload, path: Backend | Published, threads: int = 1) -> Run:
    """A run that takes the next batches of ids through a path, one on each thread."""
    batches, crew = work.id_batches(BATCH), Crew(threads)

    def forward(batch: IdBatch) -> int:
        ids, offsets = batch
        path.forward(ids, offsets, Side.POST)
        return len(offsets) - 1

    return lambda: sum(crew.map(forward, islice(batches, threads)))


def over_texts(batches: Iterator[list[str]], embed: Callable[[list[str]], object]) -> Run:
    """A run that takes the next batch of texts through a function."""

    def run() -> int:
        texts = next(batches)
        embed(texts)
        return len(texts)

    return run


def published(work: Workload) -> Run:
    """The published form, with its padding made anew for every batch."""
    return over_ids(work, Published(work.weights("paper")))


def torch_path(work: Workload) -> Run:
    """The ragged form of the star in torch."""
    from encoder.backends.torch_backend import TorchBackend

    return over_ids(work, TorchBackend(work.weights("paper"), "cpu"))


def whole(work: Workload, posts: list[str], threads: int) -> Run:
    """All of newsift, text in, both halves of the embedding out."""
    return over_texts(work.batches(posts, BATCH), work.encoder(threads).posts)


def minilm(work: Workload) -> Run:
    """MiniLM as sentence-transformers runs it, on fewer posts at a time."""
    try:
        teacher = Teacher(MINILM_BATCH)
    except InputError as error:
        raise NotAvailable(str(error)) from error
    return over_texts(work.batches(work.posts, MINILM_POSTS), teacher.texts)


ROWS = {
    "published": Row("as published: padded, eager, bisection", lambda work, _: published(work)),
    "torch": Row("star, torch: ids → vectors", lambda work, _: torch_path(work)),
    "kernel": Row(
        "gated mean, kernel: ids → vectors",
        lambda work, t: over_ids(work, GatedMeanKernel(work.weights("none")), t),
    ),
    "whole": Row("whole encoder: text → embeddings", lambda work, t: whole(work, work.posts, t)),
    "again": Row(
        "whole encoder, texts it has read before", lambda work, t: whole(work, work.earlier, t)
    ),
    "minilm": Row("MiniLM, sentence-transformers", lambda work, _: minilm(work)),
}
REFERENCES = {"published": "× as published", "minilm": "× MiniLM"}
