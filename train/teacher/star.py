"""A trained star as the teacher of the gated mean, and its vectors of the training texts."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from encoder.model.config import AstConfig
from encoder.model.star_settings import BEFORE
from encoder.model.star_transformer import StarTransformer
from encoder.model.weights import F32, I32
from encoder.readers.star_chunks import CHUNK_TOKENS, END, START, read_texts
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordPiece
from train.data.corpus import Corpus
from train.data.readers import TrainingArticle
from train.teacher.minilm import chunks, whole, with_cache
from train.teacher.store import VectorStore
from train.transformer.mpnet import (
    BATCH_TOKENS,
    batches_by_length,
    bert_pieces,
    mpnet_folder,
    padded,
)
from train.transformer.star_training import read_star

MOST_TOKENS = 2048  # of an article
VECTORS = "vectors"  # the subfolder of a run with the vectors of texts


@dataclass(frozen=True, slots=True)
class TrainedStar:
    """Reads texts by a star in training, in bf16."""

    star: StarTransformer
    pieces: WordPiece
    tokenizer: Tokenizer

    @classmethod
    def open(cls, folder: Path) -> "TrainedStar":
        star = read_star(folder).to(torch.bfloat16)
        star.axes.float()
        config = AstConfig(post_tokens=4 * CHUNK_TOKENS, article_tokens=MOST_TOKENS)
        pieces = bert_pieces(mpnet_folder())
        return cls(star, pieces, Tokenizer(pieces, None, config))

    def posts(self, texts: Sequence[str]) -> F32:
        """The unit vectors of posts: [n, d]."""
        return read_texts(self.tokenizer.posts(texts), self._chunks, lead=False)

    def articles(self, stories: Sequence[TrainingArticle]) -> F32:
        return read_texts(self.tokenizer.articles(stories), self._chunks, lead=True)

    def each_piece(self) -> F32:
        """The vector of every word piece alone, not normalised: [pieces, d]."""
        ids = np.arange(self.pieces.size, dtype=np.int32) + BEFORE
        return self._chunks([np.array([START, one, END], np.int32) for one in ids])

    @torch.inference_mode()
    def _chunks(self, chunks: Sequence[I32]) -> F32:
        out = np.zeros((len(chunks), self.star.settings.dim), np.float32)
        for rows in batches_by_length(chunks, BATCH_TOKENS):
            out[rows] = self.star(*padded([chunks[row] for row in rows])).float().numpy()
        return out


class StarTeacher:
    """A star's vectors, which are stored in the folder of its run."""

    def __init__(self, folder: Path) -> None:
        self.star = TrainedStar.open(folder)
        self.width = self.star.star.settings.dim
        self.store = VectorStore(folder / VECTORS, self.width)

    def texts(self, texts: Sequence[str]) -> F32:
        """The vectors of texts that were embedded before; another one raises InputError."""
        return self.store.get(texts)

    def articles(self, stories: Sequence[TrainingArticle]) -> F32:
        """The unit vectors of articles, each the mean over chunks that were embedded before."""
        return whole(stories, self.texts)

    def read_articles(self, stories: Sequence[TrainingArticle]) -> F32:
        """The same of any articles; new chunks are read and stored."""
        return whole(stories, with_cache(self.star.posts, self.store))

    def restrict(self, corpus: Corpus) -> Corpus:
        """The texts that were embedded before, and what consists of them alone."""

        def has_vectors(texts: Iterable[str]) -> bool:
            return not self.store.missing(texts)

        def embedded(stories: Sequence[TrainingArticle]) -> list[TrainingArticle]:
            return [story for story in stories if has_vectors(chunks(*story))]

        return Corpus(
            [post for post in corpus.posts if has_vectors([post])],
            embedded(corpus.articles),
            embedded(corpus.claims),
            [pair for pair in corpus.pairs if has_vectors([pair.post, *chunks(*pair.story)])],
            [sentence for sentence in corpus.sentences if has_vectors([sentence])],
        )


def texts_to_embed(corpus: Corpus) -> Iterator[str]:
    """Yield every text whose vector the training of a gated mean needs."""
    yield from corpus.posts
    yield from corpus.sentences
    yield from corpus.pair_posts
    for title, text in (*corpus.articles, *corpus.claims, *corpus.pair_stories):
        yield from chunks(title, text)
