"""The vocabulary and vectors that training starts with."""

import gzip
import re
import zlib
from array import array
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

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
from encoder.text.split import split_words
from encoder.text.tokenizer import Tokenizer, Tokens
from encoder.text.vocabulary import Vocabulary, WordLevel, WordPiece
from train.data.blocks import blocks_of
from train.data.corpus import Corpus
from train.data.readers import TrainingArticle
from train.recipe import TEACHER, Recipe, TokenOptions
from train.teacher.star import StarTeacher

GZIP_MAGIC = b"\x1f\x8b"
NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?")
MAX_FLOAT32 = float(np.finfo(np.float32).max)


def read_vectors(path: Path, dim: int, most: int) -> tuple[list[str], F32]:
    """Read up to `most` words of GloVe or word2vec text, maybe gzipped, and vectors [words, dim].

    Malformed lines and duplicate words are skipped.
    """
    words: dict[str, None] = {}
    values = array("f")
    try:
        with path.open("rb") as plain:
            is_gzip = plain.peek(2)[:2] == GZIP_MAGIC
            with gzip.open(plain) if is_gzip else plain as lines:
                for line in lines:
                    if len(words) == most:
                        break
                    word, vector = parse_line(line, dim)
                    if vector and word not in words:
                        words[word] = None
                        values.extend(vector)
    except (OSError, EOFError, zlib.error) as fault:
        raise InputError(f"{path}: cannot be read to its end ({fault}); fetch it again") from fault
    if not words:
        raise InputError(f"{path}: no line is a word and {dim} numbers; name the file of that dim")
    return list(words), np.array(values, np.float32).reshape(-1, dim)


def parse_line(line: bytes, dim: int) -> tuple[str, list[float]]:
    """Parse a line to a word and its vector, which is empty if the line is malformed.

    Parsed from the right, as some words of GloVe contain spaces; a number before the vector
    belongs to a longer vector.
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

SAMPLE = 40_000
MIN_LETTERS = 3  # of a whole word
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
MIN_GATE = np.float32(1e-3)


@dataclass(frozen=True, slots=True, eq=False)
class StartingPoint:
    """The tokenizer's data, and the parameters that training starts with."""

    vocabulary: Vocabulary
    idf: Idf
    vectors: F32  # [vocabulary, d]
    gates: F32  # [vocabulary], token weights of the gated mean
    directions: Tensor | None  # [teacher, d]


def make_start(
    recipe: Recipe, texts: Corpus, teacher: StarTeacher | None, file: Path | None = None
) -> StartingPoint:
    """Make vocabulary, vectors and idf for a recipe from the training texts."""
    config, tokens = recipe.model, recipe.tokens
    if teacher and recipe.articles == TEACHER and config.dim != teacher.width:
        raise InputError(f"model.dim: is not {teacher.width}, as of the teacher's articles")
    directions = None if teacher is None else main_directions(texts, teacher, config.dim)
    vocabulary: Vocabulary
    if tokens.vectors == TEACHER:
        assert teacher is not None
        assert directions is not None
        vocabulary, vectors = teacher_tokens(directions, teacher, texts, tokens.whole_words)
    else:
        vocabulary, vectors = from_file(tokens, file, config)
    pieces, words = frequencies(vocabulary, texts, config)
    is_word = np.array([line not in SPECIAL for line in vocabulary.lines()], np.float32)
    return StartingPoint(
        vocabulary, Idf(idf_of(words)), vectors,
        np.maximum(idf_of(pieces) * is_word, MIN_GATE),
        None if directions is None else torch.from_numpy(directions),
    )  # fmt: skip


def main_directions(texts: Corpus, teacher: StarTeacher, width: int) -> F32:
    """The teacher's own axes if `width` is the teacher's, else principal ones: [teacher, width]."""
    if width > teacher.width:
        raise InputError(f"model.dim: {width} is more than the {teacher.width} of the teacher")
    if width == teacher.width:
        return np.eye(width, dtype=np.float32)
    texts = teacher.restrict(texts)
    posts = [*texts.posts[:SAMPLE], *texts.pair_posts]
    articles = teacher.articles([*texts.articles[: SAMPLE // 4], *texts.pair_stories])
    sample = np.concatenate([unit_rows(teacher.texts(posts)), articles])
    _, _, rows = np.linalg.svd(sample.T @ sample)
    return np.ascontiguousarray(rows[:width].T, dtype=np.float32)


def teacher_tokens(
    directions: F32, teacher: StarTeacher, texts: Corpus, whole_words: int
) -> tuple[WordPiece, F32]:
    """Return the teacher's word pieces and frequent words, with its vectors of each alone."""
    lines = teacher.star.pieces.lines()
    more = frequent_words(texts, teacher.star.pieces, whole_words)
    pieces = teacher.star.each_piece()
    vectors = unit_rows(np.concatenate([pieces, teacher.star.posts(more)]))
    vectors = unit_rows((vectors - vectors[: len(lines)].mean(0)) @ directions)
    return WordPiece.from_lines([*lines, *more]), vectors


def frequent_words(texts: Corpus, pieces: WordPiece, count: int) -> list[str]:
    """Return the most frequent words that consist of several word pieces."""
    if not count:
        return []
    words: Counter[str] = Counter()
    for word, times in counted_words(texts).items():
        words[fold(word)] += times
    long = (
        word
        for word, _ in sorted(words.items(), key=lambda one: (-one[1], one[0]))
        if len(word) >= MIN_LETTERS and word.isalpha() and len(pieces.pieces(word)) > 1
    )
    return [word for word, _ in zip(long, range(count), strict=False)]


def counted_words(texts: Corpus) -> Counter[str]:
    """Count the words as written."""
    posts, articles = every_text(texts)
    chunks = {
        Side.POST: Counter(chain.from_iterable(map(post_chunks, posts))),
        Side.ARTICLE: Counter(chain.from_iterable(map(article_chunks, articles))),
    }
    words: Counter[str] = Counter()
    for side, counts in chunks.items():
        for chunk, times in counts.items():
            for word in split_words(clean_chunk(chunk, side)):
                words[word] += times
    return words


def every_text(texts: Corpus) -> tuple[list[str], list[TrainingArticle]]:
    """Return all posts and articles, including those of the pairs."""
    return [*texts.posts, *texts.pair_posts], [*texts.articles, *texts.pair_stories]


def from_file(tokens: TokenOptions, file: Path | None, config: AstConfig) -> tuple[Vocabulary, F32]:
    """Read whole words with their vectors from a file."""
    path = file or Path(tokens.vectors)
    if not path.is_file():
        raise InputError(f"tokens.vectors: no file {path}; name where it lies by --vectors FILE")
    words, vectors = read_vectors(path, config.dim, tokens.most)
    return WordLevel.from_lines(words), vectors


def frequencies(vocabulary: Vocabulary, texts: Corpus, config: AstConfig) -> tuple[Shares, Shares]:
    """Compute the document frequency of tokens, and of words in short texts."""
    reader = Tokenizer(vocabulary, Idf(np.ones(SLOTS, np.float32)), config)
    pieces = np.zeros(vocabulary.size)
    posts, articles = every_text(texts)
    for tokens in chain(
        map(reader.posts, blocks_of(posts)), map(reader.articles, blocks_of(articles))
    ):
        pieces += distinct_pieces(tokens, vocabulary.size)
    short, words = [*posts, *texts.sentences], np.zeros(SLOTS)
    for tokens in map(reader.posts, blocks_of(short)):
        words += np.bincount(tokens.lexical.slots, minlength=SLOTS)
    return pieces / max(len(posts) + len(articles), 1), words / max(len(short), 1)


def distinct_pieces(tokens: Tokens, size: int) -> NDArray[np.int64]:
    """Count the texts that contain each word piece: [vocabulary]."""
    text = np.repeat(np.arange(len(tokens.offsets) - 1), np.diff(tokens.offsets))
    distinct = np.unique(text * size + tokens.ids) % size
    return np.bincount(distinct, minlength=size)


def idf_of(frequency: NDArray[np.float64]) -> F32:
    """Compute the idf of document frequencies, clipped at 0 and for rare tokens."""
    return np.clip(-np.log(frequency + 1e-5), 0, None).astype(np.float32)
