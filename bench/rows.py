"""The rows of `newsift bench encoder`: one entry each, all run interleaved."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.measure import NotAvailable, Row, Run
from bench.workload import ARTICLE_BATCH, BATCH, Forward, IdBatch, Workload
from encoder.model.config import Side
from encoder.model.weights import F32

ENTMAX_TOKENS = 4096
MATRIX = 768
POSTS, ARTICLES = "posts/s", "articles/s"


@dataclass(frozen=True, slots=True)
class Section:
    """One table: its title, and the rows that its ratios are taken against, with their names."""

    key: str
    title: str
    references: tuple[tuple[str, str], ...] = ()


SECTIONS = (
    Section("posts", "Posts", (("published", "× as published"), ("minilm", "× MiniLM"))),
    Section("articles", "Articles", (("a-published", "× as published"),)),
    Section("front", "Text to tokens", (("tokenizers", "× HF"),)),
    Section("entmax", "α-entmax, rows of the ring", (("bisect", "× bisection"),)),
    Section("machine", "What the floor stands on"),
)


def all_rows(threads: Sequence[int]) -> list[Row[Workload]]:
    """Every row, for these numbers of threads."""
    rows: list[Row[Workload]] = []
    for t in threads:
        rows += [
            Row(
                "published", "posts", "as published: padded, eager, bisection", POSTS, published, t
            ),
            Row("torch", "posts", "torch: ids → vectors", POSTS, torch_path, t),
            Row("kernel", "posts", "kernel: ids → vectors", POSTS, kernel, t),
            Row("gated", "posts", "kernel with residual: ids → vectors", POSTS, gated, t),
            Row("whole", "posts", "whole encoder: text → embeddings", POSTS, whole, t),
            Row("again", "posts", "whole encoder, texts it has read before", POSTS, again, t),
            Row("minilm", "posts", "MiniLM, sentence-transformers", POSTS, minilm, t),
            Row("int8", "posts", "MiniLM, ONNX Runtime int8", POSTS, minilm_int8, t),
        ]
    for t in threads:
        rows += [
            Row("a-published", "articles", "as published", ARTICLES, articles_published, t),
            Row("a-torch", "articles", "torch: ids → vectors", ARTICLES, articles_torch, t),
            Row("a-kernel", "articles", "kernel: ids → vectors", ARTICLES, articles_kernel, t),
            Row(
                "a-whole",
                "articles",
                "whole encoder: text → embeddings",
                ARTICLES,
                articles_whole,
                t,
            ),
        ]
    return [
        *rows,
        Row("cuda", "posts", "torch on the GPU: ids → vectors", POSTS, cuda),
        Row("front", "front", "newsift: ids, slots and weights", POSTS, front),
        Row("front-again", "front", "newsift, texts it has read before", POSTS, front_again),
        Row("tokenizers", "front", "HF tokenizers: ids", POSTS, hf_tokenizers),
        Row("entmax", "entmax", "newsift: Newton", "rows/s", entmax_newton),
        Row("bisect", "entmax", "entmax package: entmax_bisect", "rows/s", entmax_bisection),
        Row("touch", "machine", "posts whose table rows are read, once", POSTS, touch_rows),
        Row("multiply", "machine", "32-bit multiply-adds, a matrix product", "/s", multiply_adds),
    ]


def over(batches: Iterator[IdBatch], path: Forward, side: Side = Side.POST) -> Run:
    """A run that takes the next batch of ids through a path."""

    def run() -> int:
        ids, offsets = next(batches)
        path.forward(ids, offsets, side)
        return len(offsets) - 1

    return run


def each(batches: Iterator[Sequence[object]], work: Callable[..., object]) -> Run:
    """A run that takes the next batch of texts through a function."""

    def run() -> int:
        texts = next(batches)
        work(texts)
        return len(texts)

    return run


def published(work: Workload, threads: int) -> Run:
    """The published form, with its padding made anew for every batch."""
    from bench.published import Published

    return over(work.id_batches(BATCH), Published(work.plain))


def torch_path(work: Workload, threads: int) -> Run:
    """The ragged form in torch."""
    return over(work.id_batches(BATCH), work.torch())


def cuda(work: Workload, threads: int) -> Run:
    """The ragged form on a GPU, in batches of 4,096; with the residual."""
    import torch

    if not torch.cuda.is_available():
        raise NotAvailable("no GPU here")
    return over(work.id_batches(16 * BATCH), work.torch("cuda"))


def kernel(work: Workload, threads: int) -> Run:
    """The kernel, in the paper's settings."""
    return over(work.id_batches(BATCH), work.kernel(threads))


def gated(work: Workload, threads: int) -> Run:
    """The kernel as the default model needs it."""
    return over(work.id_batches(BATCH), work.kernel(threads, residual=True))


def whole(work: Workload, threads: int) -> Run:
    """All of newsift, text in, both halves of the embedding out, on texts it has not seen."""
    return each(work.text_batches(BATCH), work.encoder(threads).posts)


def again(work: Workload, threads: int) -> Run:
    """All of newsift on texts whose every word it remembers."""
    return each(work.earlier_batches(BATCH), work.encoder(threads).posts)


def minilm(work: Workload, threads: int) -> Run:
    """MiniLM as most people run it."""
    from bench import peers

    return each(work.text_batches(work.peer_posts), peers.minilm().posts)


def minilm_int8(work: Workload, threads: int) -> Run:
    """MiniLM as fast as a CPU runs it."""
    from bench.peers import MiniLMInt8, check_int8

    model = MiniLMInt8(threads)
    check_int8(model)
    return each(work.text_batches(work.peer_posts), model.posts)


def articles_published(work: Workload, threads: int) -> Run:
    """The published form on long texts."""
    from bench.published import Published

    return over(article_ids(work), Published(work.plain), Side.ARTICLE)


def articles_torch(work: Workload, threads: int) -> Run:
    """The ragged form in torch on long texts."""
    return over(article_ids(work), work.torch(), Side.ARTICLE)


def articles_kernel(work: Workload, threads: int) -> Run:
    """The kernel on long texts."""
    return over(article_ids(work), work.kernel(threads), Side.ARTICLE)


def articles_whole(work: Workload, threads: int) -> Run:
    """All of newsift on long texts."""
    article_ids(work)
    return each(work.article_batches(ARTICLE_BATCH), work.encoder(threads).articles)


def front(work: Workload, threads: int) -> Run:
    """The front end alone: cleaning, ids, lexical rows."""
    return each(work.text_batches(BATCH), work.front.posts)


def front_again(work: Workload, threads: int) -> Run:
    """The front end alone on texts whose every word it remembers."""
    return each(work.earlier_batches(BATCH), work.front.posts)


def hf_tokenizers(work: Workload, threads: int) -> Run:
    """The Rust tokenizers with the same vocabulary, on the raw text."""
    from bench.peers import fast_tokenizer

    peer = fast_tokenizer(work.loaded.model.vocabulary)
    return each(
        work.text_batches(BATCH),
        lambda texts: peer.encode_batch_fast(list(texts), add_special_tokens=False),
    )


def entmax_newton(work: Workload, threads: int) -> Run:
    """Our α-entmax, forward."""
    import torch

    from encoder.model.entmax import entmax

    logits, alpha = (torch.from_numpy(x) for x in ring_logits(work))
    return counted(logits.shape[0] * logits.shape[1], lambda: entmax(logits, alpha))


def entmax_bisection(work: Workload, threads: int) -> Run:
    """The package's α-entmax, forward."""
    import torch
    from entmax import entmax_bisect

    logits, alpha = (torch.from_numpy(x) for x in ring_logits(work))
    per_row = alpha[:, None]  # [h, 1]
    return counted(
        logits.shape[0] * logits.shape[1], lambda: entmax_bisect(logits, alpha=per_row, dim=-1)
    )


def touch_rows(work: Workload, threads: int) -> Run:
    """Reading what the kernel must read, and nothing else."""
    from bench.floor import touch, written_tables

    table = written_tables(work.plain.config, len(work.plain.embedding))
    batches = work.id_batches(BATCH)

    def run() -> int:
        ids, offsets = next(batches)
        touch(table, ids)
        return len(offsets) - 1

    return run


def multiply_adds(work: Workload, threads: int) -> Run:
    """The fastest multiply-adds that a library reaches here."""
    import torch

    a, b = torch.randn(MATRIX, MATRIX), torch.randn(MATRIX, MATRIX)
    return counted(MATRIX**3, lambda: torch.mm(a, b))


def counted(items: int, work: Callable[[], object]) -> Run:
    """A run of the same work every time."""

    def run() -> int:
        work()
        return items

    return run


def ring_logits(work: Workload) -> tuple[F32, F32]:
    """Logits as the ring has them, and an α per head: [tokens, h, 2c+3], [h]."""
    config = work.plain.config
    shape = (ENTMAX_TOKENS, config.heads, 2 * config.window + 3)
    logits = np.random.default_rng(0).standard_normal(shape, dtype=np.float32) * 2
    return logits, work.plain.layers[0].ring.alpha


def article_ids(work: Workload) -> Iterator[IdBatch]:
    """Batches of articles as ids; refused where there are no articles."""
    if not work.texts.articles:
        raise NotAvailable("no articles: give --articles a folder of JSON lines")
    return work.id_batches(ARTICLE_BATCH, Side.ARTICLE)
