"""The encoder: from texts to embeddings, thresholds and explanations."""

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import numpy as np

from encoder.embeddings import Background, Embeddings, dense_rows, is_real, require_embeddings
from encoder.errors import InputError, ModelError
from encoder.explain.words import Explainer, explaining_reader
from encoder.model.config import Side
from encoder.model.weights import F32
from encoder.model_directory import Model, read_model
from encoder.readers.choose import Readers, open_readers
from encoder.readers.star_chunks import Spread
from encoder.readers.star_texts import StarTexts
from encoder.score.lexical import SparseRows
from encoder.support.jit import announce_first_start
from encoder.support.memory import return_free_memory
from encoder.support.named import MODELS, model_directory
from encoder.support.readonly import frozen
from encoder.support.threads import PerProcess, ThreadPool
from encoder.text.clean import POST_CHARS, POST_TOKENS, Article, validate_texts
from encoder.text.tokenizer import Tokenizer, Tokens
from encoder.thresholds import match_thresholds, thresholds

BLOCK = 4096  # texts per thread
STAR_BLOCK = 4096  # texts at a time
MAX_BLOCKS = 4  # at a time, for any number of threads
MIN_LETTERS_PER_THREAD = 30_000  # about two milliseconds; below it a second thread costs time
ERROR_MARGIN = 2  # other texts may be farther off than those of the model's check
CUT = ("…", 0.0)
T = TypeVar("T", bound=Article)


class Encoder:
    """A loaded model; created by `load`."""

    def __init__(
        self, model: Model, readers: Readers, source: "partial[Encoder] | None" = None
    ) -> None:
        """Internal; use `load`. `source` loads the model again after unpickling."""
        model = replace(model, star=None)  # its reader keeps what it needs of it
        self.model = model
        self.path, self.error = readers.path, (1 - model.mix) * ERROR_MARGIN * readers.error
        self._backend, self._source, self._closed = readers.skim, source, False
        self._tokenizers = PerProcess(
            lambda: Tokenizer(model.vocabulary, model.idf, model.weights.config)
        )
        self._star = None if readers.star is None else StarTexts(model, readers.star)
        given = model.background
        self._background = Background(
            read=replace(given.read, mix=model.mix, digest=model.digest),
            skim=replace(given.skim, mix=model.mix, digest=model.digest),
        )
        self._thread_pool = ThreadPool(self.threads)
        _ = self._tokenizer

    def __repr__(self) -> str:
        name = repr(self._source.args[0]) if self._source else "made of parts"
        return f"Encoder({name}, {self.path}, dim {self.dim}, model {self.digest[:12]})"

    def close(self) -> None:
        """End the threads; later calls are refused."""
        self._closed = True
        self._thread_pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        if self._source is None:
            raise InputError("encoder: made of parts; only one that `load` made can be pickled")
        return _unpickle, (self._source, self.digest)

    @property
    def dim(self) -> int:
        """The width of a dense vector."""
        return self.model.weights.config.dim

    @property
    def mix(self) -> float:
        """λ: the weight of the words half in a score."""
        return self.model.mix

    @property
    def digest(self) -> str:
        """The hex digest of the model's content."""
        return self.model.digest

    @property
    def has_star(self) -> bool:
        """Whether posts are read by another reader than they are skimmed by."""
        return self._star is not None

    @property
    def background(self) -> Background:
        """The everyday posts of the model, for automatic thresholds."""
        return self._background

    @property
    def threads(self) -> int:
        """The number of threads of the CPU kernel; 1 if torch has its own."""
        return int(getattr(self._backend, "threads", 1))

    def posts(self, texts: Iterable[str], *, threads: int | None = None) -> Embeddings:
        """The embeddings of posts; of each the first 512 tokens are read.

        `threads` limits the threads of this call: 1 is the calling thread.
        """
        if self._star is None:
            return replace(self.skim(texts, threads=threads), skimmed=False)
        return self._read(self._star.posts, texts, Side.POST, threads)

    def skim(self, texts: Iterable[str], *, threads: int | None = None) -> Embeddings:
        """The approximate embeddings of posts, in the same space, by the gated mean.

        A model without a star has no other reader: its `posts` gives the same vectors.
        """
        skimmed = self._embed(self._tokenizer.posts, texts, Side.POST, threads)
        return replace(skimmed, skimmed=True)

    def articles(self, texts: Iterable[Article]) -> Embeddings:
        """The embeddings of articles, each a text or a pair of title and text.

        Of each the first 131,072 characters are read, its title among them. The worker and the
        commands refuse a longer text.
        """
        if self._star is None:
            return self._embed(self._tokenizer.articles, texts, Side.ARTICLE)
        return self._read(self._star.articles, texts, Side.ARTICLE)

    def thresholds(
        self, articles: Embeddings, rate: float = 0.001, background: Embeddings | None = None,
        skim: bool = False,
    ) -> F32:  # fmt: skip
        """The score that a share `rate` of the background reaches, for each article: [k].

        With `skim` the approximate score of skimmed posts.
        """
        self._refuse_closed()
        if background is None:
            background = self._background.skim if skim else self._background.read
        elif require_embeddings("background", background).skimmed is not skim:
            raise InputError(
                f"background: {background!r}, but skim is {skim}; embed its posts with enc."
                f"{'skim' if skim else 'posts'}"
            )
        return thresholds(background, articles, rate)

    def match_thresholds(
        self, articles: Embeddings, rate: float = 0.001, read_factor: float | Literal["all"] = 5,
        background: Background | None = None,
    ) -> tuple[F32, F32]:  # fmt: skip
        """The thresholds and skim thresholds [k] that together a share `rate` reaches.

        `read_factor` times as many background posts reach the skim threshold, and are read; with
        "all" every post is.
        """
        self._refuse_closed()
        read_factor = math.inf if read_factor == "all" else read_factor
        if background is None:
            background = self._background
        elif not isinstance(background, Background):
            raise InputError(
                f"background: {type(background).__name__}; give the vectors of both readers, "
                "encoder.embeddings.Background(read, skim)"
            )
        return match_thresholds(background, articles, rate, read_factor)

    def tokenize(self, text: str) -> list[tuple[str, float]]:
        """The words of a post, each with its weight in the words half.

        A "…" marks the cap of the dense half, and the end of what is read of a long post.
        """
        words, row = self._tokenizer.words(text, Side.POST), self._tokenizer.posts([text]).lexical
        weights = dict(zip(row.slots.tolist(), row.weights.tolist(), strict=True))
        weighted_words = [(word.text, weights.get(word.slot, 0.0)) for word in words]
        room, ends = self.model.weights.config.post_tokens, accumulate(len(w.ids) for w in words)
        read = sum(end <= room for end in ends)
        unread = [CUT, *weighted_words[read:]] if read < len(weighted_words) else []
        is_cut = len(text) > POST_CHARS or sum(len(word.ids) for word in words) > POST_TOKENS
        return [*weighted_words[:read], *unread, *([CUT] if is_cut else [])]

    def explain(
        self, text: str, articles: Embeddings | None = None, k: int = 0, skim: bool = False
    ) -> list[tuple[str, float]]:
        """Each word's share of the post's vector, or its contribution to the score with article k.

        The last entry, "", is the rest of the score: rounding, and what is no word's. With `skim`
        the approximate vector or score.
        """
        if articles is None:
            return self._explainer(skim).attention(text)
        count = len(require_embeddings("articles", articles))
        if not (is_real(k) and k in range(count)):
            raise InputError(f"k: {k!r} is not the number of one of {count} articles, from 0")
        k = int(k)
        post = self.skim([text]) if skim else self.posts([text])
        score = float(post.similarity(articles[k : k + 1])[0, 0])
        (parts,) = self.contributions([text], articles, [(0, k)], skim)
        return [*parts, ("", score - math.fsum(part for _, part in parts))]

    def contributions(
        self, texts: Sequence[str], articles: Embeddings, pairs: Sequence[tuple[int, int]],
        skim: bool = False,
    ) -> list[list[tuple[str, float]]]:  # fmt: skip
        """Each word's contribution, for pairs of post and article indices, without the rest."""
        return self._explainer(skim).contributions(texts, articles, pairs)

    def compile_explanations(self) -> None:
        """Compile the explanation code, so that the first match does not wait for it."""
        for skim in (False, True):
            self.contributions(["a"], self.background.read[:1], [(0, 0)], skim)

    def _explainer(self, skim: bool) -> Explainer:
        self._refuse_closed()
        if skim or self._star is None:
            return self._skim_explainer
        return Explainer(self._star.tokenizer, self._star, POST_TOKENS)

    @cached_property
    def _skim_explainer(self) -> Explainer:
        reader = explaining_reader(self.model.weights, self._backend)
        return Explainer(self._tokenizer, reader, self.model.weights.config.post_tokens)

    def _refuse_closed(self) -> None:
        if self._closed:
            raise InputError("encoder: it was closed; load the model again")

    @property
    def _tokenizer(self) -> Tokenizer:
        self._refuse_closed()
        return self._tokenizers.get()

    def _embed(
        self, read: Callable[[Sequence[T]], Tokens], texts: Iterable[T], side: Side,
        threads: int | None = None,
    ) -> Embeddings:  # fmt: skip
        """Tokenize and embed the texts in parts by the gated mean."""
        refuse_threads(threads)
        forward, lead = self._backend.forward, self.model.weights.config.lead
        items = validate_texts(texts, side)
        dense = np.empty((len(items), self.dim), np.float32)  # [n, d]

        def embed_part(part: slice) -> SparseRows:
            tokens = read(items[part])
            dense_rows(forward, tokens.ids, tokens.offsets, side, lead, dense[part])
            return tokens.lexical

        threads = self.threads if threads is None else min(threads, self.threads)
        words = list(self._thread_pool.map(embed_part, _parts(items, threads), threads))
        lexical = words[0] if len(words) == 1 else SparseRows.concat(words)
        return Embeddings(frozen(dense), lexical, self.mix, self.digest)

    def _read(
        self, read: Callable[[Sequence[T], Spread], tuple[F32, SparseRows]], texts: Iterable[T],
        side: Side, threads: int | None = None,
    ) -> Embeddings:  # fmt: skip
        """Tokenize and embed the texts in blocks by the star."""
        self._refuse_closed()
        refuse_threads(threads)
        items = validate_texts(texts, side)
        spread = partial(self._thread_pool.map, threads=threads)
        starts = range(0, len(items), STAR_BLOCK) or [0]
        parts = [read(items[start : start + STAR_BLOCK], spread) for start in starts]
        dense = np.concatenate([dense for dense, _ in parts])
        words = SparseRows.concat([words for _, words in parts])
        return Embeddings(frozen(dense), words, self.mix, self.digest)


def refuse_threads(threads: int | None) -> None:
    if threads is not None and (type(threads) is not int or threads < 1):
        raise InputError(f"threads: {threads!r} is not a whole number from 1; leave it out")


def _parts(texts: Sequence[Article], threads: int) -> Iterator[slice]:
    """Divide the texts into parts of bounded memory, one per thread.

    Smaller parts are slower: tokenizer and kernel evict each other's tables from the cache.
    """
    step = BLOCK * min(threads, MAX_BLOCKS)
    for start in range(0, len(texts), step):
        if threads == 1:
            yield slice(start, min(start + step, len(texts)))
            continue
        letters = (
            len(text) if isinstance(text, str) else sum(map(len, text))
            for text in texts[start : start + step]
        )
        ends = list(accumulate(letters))
        count = max(1, min(threads, ends[-1] // MIN_LETTERS_PER_THREAD))
        goals = (ends[-1] * part // count for part in range(1, count))
        bounds = [0, *(bisect_left(ends, goal) + 1 for goal in goals), len(ends)]
        yield from (slice(start + a, start + b) for a, b in pairwise(bounds) if a < b)


def load(
    name_or_path: str | Path = "default", device: str = "auto", threads: int | None = None
) -> Encoder:
    """Load a model by its name or directory, on "auto", "cpu" or "cuda"."""
    folder = model_directory(name_or_path)
    name = folder.name if folder.parent == MODELS else str(folder.resolve())
    announce_first_start()
    enc = _open(folder, device, threads, partial(load, name, device, threads))
    return_free_memory()  # a quarter of what is held then
    return enc


def _open(folder: Path, device: str, threads: int | None, source: "partial[Encoder]") -> Encoder:
    model = read_model(folder)
    return Encoder(model, open_readers(model, device, threads), source)


def _unpickle(source: "partial[Encoder]", digest: str) -> Encoder:
    """Load the encoder after unpickling."""
    try:
        enc = source()
    except ModelError as error:
        raise ModelError(f"{error}; put model {digest[:12]}, which was pickled, there") from error
    if enc.digest != digest:
        raise ModelError(
            f"{source.args[0]}: holds model {enc.digest[:12]}, but {digest[:12]} was pickled; "
            "put that one back"
        )
    return enc
