import threading
from collections import Counter
from math import log
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.model.config import AstConfig, Side
from encoder.score.lexical import NO_SLOT, SLOTS, Idf, slot
from encoder.text.clean import clean_post
from encoder.text.tokenizer import Tokenizer, Tokens
from encoder.text.vocabulary import WordLevel, WordPiece
from tests.encoder.real_texts import ALL, real_posts, their_word_piece, vocabulary_lines, wild_text

POST_TOKENS, ARTICLE_TOKENS, LEAD = 6, 20, 4
LINES = vocabulary_lines()
VOCABULARY = WordPiece.from_lines(LINES)
IDF = Idf(np.random.default_rng(0).uniform(0, 9, SLOTS).astype(np.float32))
Row = tuple[list[int], dict[int, float]]
batches = st.lists(wild_text, max_size=8)


def tokenizer(idf: Idf | None = IDF, posts: int = POST_TOKENS) -> Tokenizer:
    config = AstConfig(post_tokens=posts, article_tokens=ARTICLE_TOKENS, lead=LEAD)
    return Tokenizer(VOCABULARY, idf, config)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("encoder.text.tokenizer.CACHED_CHUNKS", 10)
    monkeypatch.setattr("encoder.text.tokenizer.CACHED_WORDS", 10)


def read(tokens: Tokens) -> list[Row]:
    result = []
    for i in range(len(tokens.offsets) - 1):
        row = tokens.lexical[i : i + 1]
        ids = tokens.ids[tokens.offsets[i] : tokens.offsets[i + 1]].tolist()
        result.append((ids, dict(zip(row.slots.tolist(), row.weights.tolist(), strict=True))))
    return result


SHARED_TOKENIZER = tokenizer()


@given(batches)
def test_the_words_of_a_text_make_its_tokens(texts: list[str]) -> None:
    posts, articles = SHARED_TOKENIZER.posts(texts), SHARED_TOKENIZER.articles(texts)
    caps = (Side.POST, posts, POST_TOKENS), (Side.ARTICLE, articles, ARTICLE_TOKENS)
    for side, tokens, cap in caps:
        for text, (ids, row) in zip(texts, read(tokens), strict=True):
            words = SHARED_TOKENIZER.words(text, side)
            expected_ids = [i for word in words for i in word.ids][:cap]
            lexical = [word for word in words if word.slot != NO_SLOT]
            tf = Counter(word.slot for word in lexical)
            weights = {word.slot: word.weight for word in lexical}
            if side is Side.ARTICLE:
                tf = Counter({place: min(count, 2) for place, count in tf.items()})
                weights |= {word.slot: 2 * word.weight for word in lexical[:LEAD]}
            raw = {at: (1 + log(tf[at])) * weight for at, weight in weights.items() if weight > 0}
            length = sum(value**2 for value in raw.values()) ** 0.5
            expected = {place: value / length for place, value in sorted(raw.items())}
            assert (ids, list(row)) == (expected_ids, list(expected))
            assert row == pytest.approx(expected, abs=1e-6)


def test_ids_equal_the_oracle_on_real_posts(shared: Path) -> None:
    posts = real_posts(shared)[:: 1 if ALL else 4]
    expected = their_word_piece(LINES).encode_batch(list(map(clean_post, posts)))
    tokens = tokenizer(posts=128).posts(posts)
    for i, one in enumerate(expected):
        assert tokens.ids[tokens.offsets[i] : tokens.offsets[i + 1]].tolist() == one.ids[:128]


def test_ids_stop_at_the_cap_and_the_lexical_row_of_an_article_does_not() -> None:
    text = " ".join(f"w{i}" for i in range(100))
    [(ids, row)] = read(SHARED_TOKENIZER.articles([("Title", text)]))
    assert len(ids) == ARTICLE_TOKENS
    assert set(row) == {slot("title")} | {slot(f"w{i}") for i in range(100)}
    [(ids, row)] = read(SHARED_TOKENIZER.posts([text]))
    assert len(ids) == POST_TOKENS
    assert len(row) == 100


def test_without_an_idf_the_lexical_rows_are_empty() -> None:
    plain = tokenizer(idf=None)
    tokens = plain.posts(["the storm", ""])
    assert [row for _, row in read(tokens)] == [{}, {}]
    assert tokens.ids.tolist() == SHARED_TOKENIZER.posts(["the storm", ""]).ids.tolist()
    assert [word.slot for word in plain.words("the storm", Side.POST)] == [NO_SLOT, NO_SLOT]


def test_word_level_skips_words_without_an_id() -> None:
    words = Tokenizer(WordLevel.from_lines(["US", "storm"]), IDF, AstConfig())
    assert read(words.posts(["US news: Storm #USStorm"]))[0][0] == [0, 1, 0, 1]


def test_the_cache_is_bounded_and_changes_nothing(small: None) -> None:
    used, per_text = Tokenizer(WordLevel.from_lines(["last"]), IDF, AstConfig()), 1000
    for start in range(0, 20_000, 5 * per_text):
        texts = [
            " ".join([f"é{i}" for i in range(at, at + per_text)] + ["last"])
            for at in range(start, start + 5 * per_text, per_text)
        ]
        tokens = used.posts(texts)
        assert tokens.ids.tolist() == [0] * 5
        for memory in (used._bodies, used._word):
            assert memory.cache_info().currsize == 10
    expected = {slot(f"é{i}") for i in range(19_000, 20_000)} | {slot("last")}
    assert set(read(tokens)[-1][1]) == expected


def test_threads_may_share_a_tokenizer(small: None) -> None:
    used = tokenizer()
    rng = np.random.default_rng(0)
    texts = [
        [" ".join(f"é{i}" for i in rng.zipf(1.2, 30) % 10_000) for _ in range(20)] for _ in range(4)
    ]
    expected = [read(tokenizer().posts(batch)) for batch in texts]
    right: list[bool] = []

    def work(turn: int) -> None:
        right.extend(read(used.posts(texts[turn])) == expected[turn] for _ in range(25))

    threads = [threading.Thread(target=work, args=(turn,)) for turn in range(len(texts))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert right == [True] * 100
