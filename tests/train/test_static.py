"""The untrained default: its counts against a slow count, its corpus against small files."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

from encoder.config import Side
from encoder.errors import InputError
from encoder.lexical import SLOTS, Idf, slot
from encoder.tokenizer import Tokenizer
from encoder.vocabulary import WordPiece
from tests.encoder.small import LINES
from train import corpus, static


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder laid out as the public data is, with a few rows in each file."""
    written = {name: [{"text": f"storm in {i} city city"} for i in "abc"] for name in corpus.POSTS}
    for name in corpus.PAIRED:
        written[f"pairs/{name}.jsonl.gz"] = [{"post": "flood", "title": "river", "article": "fire"}]
    written["articles/bbc.jsonl.gz"] = [{"title": "music", "article": "a match"}, {"title": "none"}]
    for name, rows in written.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with gzip.open(tmp_path / name, "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
    return tmp_path


def test_document_frequencies_count_each_text_once(data: Path) -> None:
    vocabulary = WordPiece.from_lines(LINES)
    pieces, words = static.document_frequencies(vocabulary, data)
    reader = Tokenizer(vocabulary, Idf(np.ones(SLOTS, np.float32)), 128, 1024)
    texts = [reader.words(p, Side.POST) for p in corpus.posts(data)]
    texts += [reader.words(a, Side.ARTICLE) for a in corpus.articles(data)]
    for word in ("storm", "city", "flood", "music", "match", "police"):
        holding = sum(word in {w.text for w in text} for text in texts) / len(texts)
        assert pieces[LINES.index(word)] == pytest.approx(holding)
        assert words[slot(word)] == pytest.approx(holding)


def test_articles_without_text_are_left_out(data: Path) -> None:
    assert list(corpus.articles(data)) == [
        ("music", "a match"),
        ("river", "fire"),
        ("river", "fire"),
    ]


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tweeteval\.jsonl\.gz"):
        list(corpus.posts(tmp_path))


def test_idf_is_bounded_and_never_negative() -> None:
    found = static.inverse(np.array([0.0, 0.01, 1.0]))
    assert found[1] == pytest.approx(-math.log(0.01), abs=2e-3)
    assert found[2] == 0
    assert found[0] == pytest.approx(-math.log(1e-5), rel=1e-6)


def test_a_sample_depends_on_the_text_alone() -> None:
    shares = [corpus.share(f"post {i}") for i in range(2000)]
    assert shares == [corpus.share(f"post {i}") for i in range(2000)]
    assert all(0 <= s < 1 for s in shares)
    assert 0.45 < sum(s < 0.5 for s in shares) / 2000 < 0.55


def test_the_projection_keeps_the_directions_in_which_texts_differ() -> None:
    rng = np.random.default_rng(0)
    pieces = rng.standard_normal((50, 384)).astype(np.float32)
    texts = rng.standard_normal((400, 384)).astype(np.float32)
    texts[:, static.CONFIG.dim :] *= 1e-3
    centred = (pieces - pieces.mean(0))[:, : static.CONFIG.dim]
    exact = centred / np.linalg.norm(centred, axis=1, keepdims=True)
    found = static.project(pieces, texts)
    np.testing.assert_allclose(found @ found.T, exact @ exact.T, atol=2e-3)
