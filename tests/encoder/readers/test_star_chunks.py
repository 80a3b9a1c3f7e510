from collections.abc import Sequence

import numpy as np

from encoder.model.star_settings import BEFORE
from encoder.model.weights import F32, I32
from encoder.readers.star_chunks import (
    CHUNK_TOKENS,
    END,
    START,
    RecentTokens,
    chunks_of,
    read_texts,
    star_tokens,
    star_vectors,
)
from encoder.readers.star_onnx import StarOnnx
from encoder.score.lexical import SparseRows
from encoder.text.tokenizer import Tokens
from tests.encoder.small_transformer import model_with_star

LENGTHS = [3, 0, CHUNK_TOKENS, 2 * CHUNK_TOKENS + 1]


def make_tokens(lengths: list[int]) -> Tokens:
    ids = np.arange(sum(lengths), dtype=np.int32) % 90
    offsets = np.cumsum([0, *lengths]).astype(np.int64)
    words = SparseRows(np.zeros(len(lengths) + 1, np.int64), ids[:0], np.zeros(0, np.float32))
    return Tokens(ids, offsets, words)


def read(chunks: Sequence[I32]) -> F32:
    """A vector for each chunk, by its second token and its length."""
    rows = [[chunk[1], len(chunk), 1] for chunk in chunks]
    return np.array(rows, np.float32).reshape(-1, 3)


def test_each_chunk_has_a_relay_and_an_end_and_together_they_have_all_tokens() -> None:
    tokens = make_tokens(LENGTHS)
    chunks, counts = chunks_of(tokens.ids, tokens.offsets)
    assert counts.tolist() == [1, 0, 1, 3]
    assert all(chunk[0] == START and chunk[-1] == END for chunk in chunks)
    assert np.array_equal(np.concatenate([chunk[1:-1] for chunk in chunks]) - BEFORE, tokens.ids)


def test_no_texts_have_no_chunks() -> None:
    none = make_tokens([])
    assert chunks_of(none.ids, none.offsets)[0] == []
    assert read_texts(make_tokens([]), read, lead=True).shape == (0, 3)


def test_a_texts_vector_is_the_mean_of_its_chunks_the_lead_counted_twice() -> None:
    tokens = make_tokens(LENGTHS)
    for lead in (False, True):
        vectors = read_texts(tokens, read, lead)
        assert np.array_equal(vectors[1], np.zeros(3))
        rows = read(chunks_of(tokens.ids, tokens.offsets)[0][2:]).astype(np.float64)
        units = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        total = units.sum(0) + (units[0] if lead else 0)
        np.testing.assert_allclose(vectors[3], total / np.linalg.norm(total), atol=1e-6)


def test_tokens_that_were_kept_have_the_bits_of_another_reading() -> None:
    star = model_with_star().star
    assert star is not None
    reader, kept = StarOnnx(star.weights), RecentTokens()
    chunks = chunks_of(np.arange(90, dtype=np.int32) % 70, np.array([0, 4, 9, 9, 50, 90]))[0]
    before = star_tokens(reader, chunks)
    vectors = star_vectors(reader, chunks, map)
    assert np.array_equal(star_vectors(reader, chunks[1:], map, kept), vectors[1:])
    for tokens, known, own in zip(before[1:], map(kept.get, chunks[1:]), chunks[1:], strict=True):
        assert known is not None
        assert len(known) == len(own)
        assert np.array_equal(tokens, known)
    after = star_tokens(reader, chunks, kept)  # the first is read now
    assert all(map(np.array_equal, before, after))


def test_what_is_kept_is_bounded_and_the_oldest_goes_first() -> None:
    kept, tokens = RecentTokens(1_000), np.zeros((25, 4), np.float32)  # 400 bytes
    chunks = [np.array([n], np.int32) for n in range(3)]
    for chunk in (chunks[0], chunks[0], *chunks[1:]):
        kept.put(chunk, tokens)
    assert [kept.get(chunk) is None for chunk in chunks] == [True, False, False]
