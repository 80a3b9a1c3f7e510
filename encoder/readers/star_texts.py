"""Posts and articles as a star reads them."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise

import numpy as np

from encoder.model.config import MAX_TOKENS, Side
from encoder.model.weights import F32, I32, I64
from encoder.model_directory import Model
from encoder.readers.star_chunks import (
    RecentTokens,
    Spread,
    StarReader,
    chunks_of,
    read_texts,
    star_tokens,
    star_vectors,
)
from encoder.score.lexical import SparseRows
from encoder.support.threads import PerProcess
from encoder.text.clean import POST_TOKENS, Article
from encoder.text.tokenizer import Tokenizer, Tokens
from encoder.text.vocabulary import WordPiece


def star_tokenizer(model: Model, pieces: int) -> Tokenizer:
    """It knows the first so many entries of the vocabulary, and reads as much as may be read."""
    vocabulary = WordPiece.from_lines(model.vocabulary.lines()[:pieces])
    config = replace(model.weights.config, post_tokens=POST_TOKENS, article_tokens=MAX_TOKENS)
    return Tokenizer(vocabulary, model.idf, config)


class StarTexts:
    """Reads texts by word pieces alone: the gated mean's vocabulary has whole words after them."""

    def __init__(self, model: Model, reader: StarReader) -> None:
        self._reader = reader
        self._kept = RecentTokens() if reader.keeps_tokens else None  # of posts
        self._tokenizers = PerProcess(lambda: star_tokenizer(model, reader.settings.pieces))

    @property
    def tokenizer(self) -> Tokenizer:
        return self._tokenizers.get()

    def posts(self, texts: Sequence[str], spread: Spread) -> tuple[F32, SparseRows]:
        """The unit vectors [n, d] and the words of some posts."""
        return self._read(self.tokenizer.posts(texts), Side.POST, spread)

    def articles(self, texts: Sequence[Article], spread: Spread) -> tuple[F32, SparseRows]:
        return self._read(self.tokenizer.articles(texts), Side.ARTICLE, spread)

    def _read(self, tokens: Tokens, side: Side, spread: Spread) -> tuple[F32, SparseRows]:
        kept = self._kept if side is Side.POST else None

        def read(chunks: Sequence[I32]) -> F32:
            return star_vectors(self._reader, chunks, spread, kept)

        return read_texts(tokens, read, lead=side is Side.ARTICLE), tokens.lexical

    def attention(self, ids: I32, side: Side) -> F32:
        """The share of each token in the vector of one text: ≥ 0 with sum 1 [n].

        A token counts by how far its own last state points to where the text's vector does.
        """
        (vectors,) = self._token_parts(ids, np.array([0, len(ids)]))
        toward = np.maximum(vectors @ vectors.sum(0), 0)
        return np.asarray(toward / max(toward.sum(), np.finfo(np.float32).tiny), np.float32)

    def parts(self, ids: I32, offsets: I64, side: Side, pairs: I64, rows: F32) -> F32:
        """Each token's part of the cosine of a text's vector with a unit row, pair after pair.

        A text's vector is a mean of its tokens' last states, so the parts are exact; what is
        missing of the cosine are those of relay and end.
        """
        texts = self._token_parts(ids, offsets)
        parts = [texts[text] @ rows[row] for text, row in pairs.tolist()]
        return np.concatenate(parts) if parts else np.zeros(0, np.float32)

    def _token_parts(self, ids: I32, offsets: I64) -> list[F32]:
        """For each text the vectors [tokens, d] that its tokens add to its unit vector."""
        chunks, counts = chunks_of(ids, offsets)
        tokens = star_tokens(self._reader, chunks, self._kept)
        scaled = [own / np.linalg.norm(own.sum(0)) for own in tokens]
        texts = []
        for start, stop in pairwise([0, *accumulate(counts.tolist())]):
            own = scaled[start:stop]
            length = np.linalg.norm(sum(part.sum(0) for part in own)) if own else 1
            inner = [part[1:-1] / length for part in own]
            texts.append(
                np.concatenate(inner) if inner else np.zeros((0, self._reader.settings.dim))
            )
        return [np.asarray(text, np.float32) for text in texts]
