"""Pre-trained word vectors, read line by line: GloVe text and word2vec text, gzip or plain."""

import gzip
import re
import zlib
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from encoder.embeddings import unit_rows
from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.weights import F32
from encoder.score.lexical import SLOTS, Idf
from encoder.support.letters import fold
from encoder.text.clean import article_chunks, clean_chunk, post_chunks
from encoder.text.scripts import split_scripts
from encoder.text.split import split_words
from encoder.text.tokenizer import Tokenizer, Tokens
from encoder.text.vocabulary import Scripts, Vocabulary, WordLevel, WordPiece
from train.data.corpus import Corpus
from train.data.readers import TrainingArticle
from train.recipe import TEACHER, Recipe, TokenOptions
from train.teacher.minilm import Teacher, whole
from train.teacher.store import VectorStore
from train.teacher.use import Use
from train.teacher.use import letters as entry_letters

GZIP_MAGIC = b"\x1f\x8b"
NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?")
MAX_FLOAT32 = float(np.finfo(np.float32).max)


def read_vectors(path: Path, dim: int, most: int) -> tuple[list[str], F32]:
    """The first words of a file up to a limit, each with its vector: [words, dim].

    A malformed line, or a second one for the same word, is passed over.
    """
    words: dict[str, None] = {}
    values = array("f")
    try:
        with path.open("rb") as plain:
            packed = plain.peek(2)[:2] == GZIP_MAGIC
            with gzip.open(plain) if packed else plain as lines:
                for line in lines:
                    if len(words) == most:
                        break
                    word, vector = parsed(line, dim)
                    if vector and word not in words:
                        words[word] = None
                        values.extend(vector)
    except (OSError, EOFError, zlib.error) as fault:
        raise InputError(f"{path}: cannot be read to its end ({fault}); fetch it again") from fault
    if not words:
        raise InputError(f"{path}: no line is a word and {dim} numbers; name the file of that dim")
    return list(words), np.array(values, np.float32).reshape(-1, dim)


def parsed(line: bytes, dim: int) -> tuple[str, list[float]]:
    """The word of a line and its vector; an empty vector if the line is malformed.

    Taken from the right, as some words of GloVe hold spaces; a number before the vector is one of
    a longer vector.
    """
    try:
        word, *fields = line.decode().rstrip().rsplit(" ", dim)
        vector = list(map(float, fields))
    except ValueError:
        return "", []
    longer = " " in word and NUMBER.fullmatch(word.rpartition(" ")[2])
    sound = word and not longer and len(vector) == dim
    return word, vector if sound and all(abs(value) <= MAX_FLOAT32 for value in vector) else []


Shares = NDArray[np.float64]
T = TypeVar("T")

SAMPLE = 40_000
MIN_LETTERS = 3  # of a whole word that is added to the word pieces
TOKENS = "tokens"  # the folder of the teacher's vectors of single tokens, inside that of texts
MIN_POSTS = 3  # of a language, of which few are known, that a word is in to be counted there
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MIN_GATE = np.float32(1e-3)


@dataclass(frozen=True, slots=True, eq=False)
class StartingPoint:
    """All that is fixed before the first step, and the vectors that training begins with."""

    vocabulary: Vocabulary
    idf: Idf
    vectors: F32  # [vocabulary, d]
    gates: F32  # [vocabulary], how much each token counts in the gated mean
    directions: Tensor | None  # [teacher, d]


def make_start(
    recipe: Recipe, texts: Corpus, store: VectorStore | None, file: Path | None = None
) -> StartingPoint:
    """Vocabulary, vectors and idf as the recipe names them, counted on the texts that train."""
    config, tokens = recipe.model, recipe.tokens
    directions = None if store is None else main_directions(texts, store, config.dim)
    vocabulary: Vocabulary
    if tokens.vectors == TEACHER:
        assert store is not None
        assert directions is not None
        own = VectorStore(store.folder / TOKENS, store.width)
        if tokens.kind == Scripts.kind:
            vocabulary, vectors = taught_scripts(directions, own, texts, tokens.most)
        else:
            vocabulary, vectors = taught_tokens(directions, own, texts, tokens.whole_words)
    else:
        vocabulary, vectors = from_file(tokens, file, config)
    pieces, words = frequencies(vocabulary, texts, config)
    return StartingPoint(
        vocabulary, Idf(idf_of(words)), vectors,
        np.maximum(idf_of(pieces) * word_mask(vocabulary), MIN_GATE),
        None if directions is None else torch.from_numpy(directions),
    )  # fmt: skip


def main_directions(texts: Corpus, store: VectorStore, width: int) -> F32:
    """The directions in which the teacher's vectors of real texts differ most: [teacher, width]."""
    if width > store.width:
        raise InputError(f"model.dim: {width} is more than the {store.width} of the teacher")
    posts = [*texts.posts[:SAMPLE], *texts.pair_posts]
    articles = whole([*texts.articles[: SAMPLE // 4], *texts.pair_stories], store.get)
    sample = np.concatenate([unit_rows(store.get(posts)), articles])
    _, _, rows = np.linalg.svd(sample.T @ sample)
    return np.ascontiguousarray(rows[:width].T, dtype=np.float32)


def taught_tokens(
    directions: F32, own: VectorStore, texts: Corpus, whole_words: int
) -> tuple[WordPiece, F32]:
    """The teacher's word pieces, frequent words beside them, and its vector of each alone."""
    teacher = Teacher()
    lines = teacher.vocabulary()
    if missing := own.missing(lines):
        place = {line: i for i, line in enumerate(lines)}
        own.add(missing, teacher.pieces()[[place[line] for line in missing]])
    more = frequent_words(texts, WordPiece.from_lines(lines), whole_words)
    if missing := own.missing(more):
        own.add(missing, teacher.texts(missing))
    vectors = unit_rows(own.get([*lines, *more]))
    vectors = unit_rows((vectors - vectors[: len(lines)].mean(0)) @ directions)
    return WordPiece.from_lines([*lines, *more]), vectors


def taught_scripts(
    directions: F32, own: VectorStore, texts: Corpus, most: int
) -> tuple[Scripts, F32]:
    """Word pieces of many scripts, and the teacher's vector of each alone."""
    teacher = Use()
    lines = teacher.vocabulary(counted_words(texts, split_scripts), most)
    read = [entry_letters(line) for line in lines]
    if missing := own.missing(read):
        own.add(missing, teacher.texts(missing))
    vectors = unit_rows(own.get(read))
    return Scripts.from_lines(lines), unit_rows((vectors - vectors.mean(0)) @ directions)


def frequent_words(texts: Corpus, pieces: WordPiece, count: int) -> list[str]:
    """The words that occur most often among those that are several word pieces."""
    if not count:
        return []
    words: Counter[str] = Counter()
    for word, times in counted_words(texts, split_words).items():
        words[fold(word)] += times
    long = (
        word
        for word, _ in sorted(words.items(), key=lambda one: (-one[1], one[0]))
        if len(word) >= MIN_LETTERS and word.isalpha() and len(pieces.pieces(word)) > 1
    )
    return [word for word, _ in zip(long, range(count), strict=False)]


def counted_words(texts: Corpus, split: Callable[[str], list[str]]) -> Counter[str]:
    """How often each word occurs, as it is written."""
    posts, articles = every_text(texts)
    chunks = {
        Side.POST: Counter(chain.from_iterable(map(post_chunks, posts))),
        Side.ARTICLE: Counter(chain.from_iterable(map(article_chunks, articles))),
    }
    words: Counter[str] = Counter()
    for side, counts in chunks.items():
        for chunk, times in counts.items():
            for word in split(clean_chunk(chunk, side)):
                words[word] += times
    return words


def every_text(texts: Corpus) -> tuple[list[str], list[TrainingArticle]]:
    """All posts and all articles that are counted, those of the pairs too."""
    return [*texts.posts, *texts.pair_posts], [*texts.articles, *texts.pair_stories]


def from_file(tokens: TokenOptions, file: Path | None, config: AstConfig) -> tuple[Vocabulary, F32]:
    """Whole words with their vectors out of a file."""
    path = file or Path(tokens.vectors)
    if not path.is_file():
        raise InputError(f"tokens.vectors: no file {path}; name where it lies by --vectors FILE")
    words, vectors = read_vectors(path, config.dim, tokens.most)
    return WordLevel.from_lines(words), vectors


def frequencies(vocabulary: Vocabulary, texts: Corpus, config: AstConfig) -> tuple[Shares, Shares]:
    """In what share of posts and articles each token, of posts and sentences each word, occurs.

    A word of a language whose posts are named counts as the share of these, if that is larger: in
    all languages together each one's most common words are rare.
    """
    reader = Tokenizer(vocabulary, Idf(np.ones(SLOTS, np.float32)), config)
    pieces = np.zeros(vocabulary.size)
    posts, articles = every_text(texts)
    for tokens in chain(
        map(reader.posts, blocks_of(posts)), map(reader.articles, blocks_of(articles))
    ):
        pieces += distinct_pieces(tokens, vocabulary.size)
    words = [word_shares(reader, [*posts, *texts.sentences])]
    words += (word_shares(reader, some, MIN_POSTS) for some in texts.languages.values())
    return pieces / max(len(posts) + len(articles), 1), np.max(words, axis=0)


def word_shares(reader: Tokenizer, texts: list[str], fewest: int = 1) -> Shares:
    """In what share of short texts each word occurs, those in fewer texts left out: [slots]."""
    counts = np.zeros(SLOTS)
    for tokens in map(reader.posts, blocks_of(texts)):
        counts += np.bincount(tokens.lexical.slots, minlength=SLOTS)
    return np.where(counts < fewest, 0, counts) / max(len(texts), 1)


def word_mask(vocabulary: Vocabulary) -> F32:
    """Zero for the tokens that stand for no word, one for all others: [vocabulary]."""
    return np.array([line not in SPECIAL for line in vocabulary.lines()], np.float32)


def distinct_pieces(tokens: Tokens, size: int) -> NDArray[np.int64]:
    """In how many of the texts each word piece occurs: [vocabulary]."""
    text = np.repeat(np.arange(len(tokens.offsets) - 1), np.diff(tokens.offsets))
    distinct = np.unique(text * size + tokens.ids) % size
    return np.bincount(distinct, minlength=size)


def blocks_of(items: list[T], size: int = 2048) -> Iterator[list[T]]:
    """The items in lists of this many; none make one empty list."""
    return (items[start : start + size] for start in range(0, max(len(items), 1), size))


def idf_of(frequency: NDArray[np.float64]) -> F32:
    """The idf of each share of texts, never negative, and bounded for what was hardly seen."""
    return np.clip(-np.log(frequency + 1e-5), 0, None).astype(np.float32)
