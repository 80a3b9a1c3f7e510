import unicodedata
from functools import lru_cache
from pathlib import Path

import pytest
from hypothesis import given
from tokenizers import normalizers, pre_tokenizers

from encoder.errors import InputError
from encoder.support.letters import fold
from encoder.text.clean import clean_article, clean_post
from encoder.text.split import split_words
from encoder.text.vocabulary import VOCABULARIES, Vocabulary, WordLevel, WordPiece
from tests.encoder.real_texts import (
    encodable,
    real_articles,
    real_posts,
    their_word_piece,
    vocabulary_lines,
    wild_text,
)

LINES = vocabulary_lines()
OURS = WordPiece.from_lines(LINES)
# what Unicode has classed anew since its version 8, which the oracle's tables follow
RECLASSED = {"\u166d", "\u1734", "\u1885", "\u1886"}
THEIRS = their_word_piece(LINES)
pieces = lru_cache(100_000)(OURS.pieces)


def settled(text: str) -> str:
    """The text without the characters on which versions of Unicode differ."""
    category = unicodedata.ucd_3_2_0.category
    return "".join(char for char in text if category(char) != "Cn" and char not in RECLASSED)


def assert_same(texts: list[str]) -> None:
    for text, theirs in zip(texts, THEIRS.encode_batch(texts), strict=True):
        assert [i for word in split_words(text) for i in pieces(word)] == theirs.ids, text


def test_word_piece_equals_the_oracle_on_real_texts(shared: Path) -> None:
    posts, articles = real_posts(shared), real_articles(shared)
    assert_same([*map(encodable, posts), *map(clean_post, posts)])
    assert_same([*(text for _, text in articles), *map(clean_article, articles)])


@given(wild_text.map(encodable))
def test_word_piece_equals_the_oracle_on_wild_text(text: str) -> None:
    assert_same([settled(form) for form in (text, clean_post(text), clean_article(text))])


def test_every_character_of_unicode_3_splits_and_folds_as_the_oracle_does() -> None:
    normalize = normalizers.BertNormalizer().normalize_str
    split = pre_tokenizers.BertPreTokenizer().pre_tokenize_str
    codes = [*range(0xD800), *range(0xE000, 0x110000)]
    characters = [
        c for c in map(chr, codes) if unicodedata.ucd_3_2_0.category(c) not in ("Cn", "Co")
    ]
    odd = []
    for char in characters:
        text = f"a{char}b"
        words = [folded for word in split_words(text) if (folded := fold(word))]
        if words != [word for word, _ in split(normalize(text))]:
            odd.append(char)
    assert len(characters) > 90_000
    assert set(odd) <= RECLASSED


@pytest.mark.parametrize(
    "word",
    ["a" * 100, "a" * 101, "e\u0301" * 100, "İ" * 100, "ΟΔΟΣ", "unaffable", "漢", "\u0301", "ẞ"],
)
def test_word_piece_equals_the_oracle_on_edge_cases(word: str) -> None:
    assert list(OURS.pieces(word)) == THEIRS.encode(word).ids


def test_a_word_that_cannot_be_pieced_together_is_unknown() -> None:
    vocabulary = WordPiece.from_lines(["[UNK]", "a", "##b"])
    assert vocabulary.pieces("ABB") == (1, 2, 2)
    assert vocabulary.pieces("abc") == vocabulary.pieces("b") == (vocabulary.unknown,) == (0,)


def test_word_level_looks_for_the_word_as_written_first() -> None:
    vocabulary = WordLevel.from_lines(["us", "US", "cafe", "café", "Paris", "zoë"])
    result = {
        word: vocabulary.pieces(word) for word in ("US", "Us", "Café", "CAFÊ", "paris", "Zoë")
    }
    assert result == {"US": (1,), "Us": (0,), "Café": (3,), "CAFÊ": (2,), "paris": (), "Zoë": (5,)}


@pytest.mark.parametrize("name", ["[UNK]", "<unk>"])
def test_word_level_gives_an_unknown_word_the_unknown_id_if_there_is_one(name: str) -> None:
    with_unknown, without = WordLevel.from_lines(["a", name]), WordLevel.from_lines(["a"])
    assert with_unknown.unknown == 1
    assert with_unknown.pieces("b") == (1,)
    assert without.unknown is None
    assert without.pieces("b") == ()
    assert with_unknown.pieces("\u0301") == ()


@pytest.mark.parametrize("kind", sorted(VOCABULARIES))
def test_a_vocabulary_comes_back_from_its_lines(kind: str) -> None:
    lines = ["[UNK]", "a", "##b", "\x85", "\u2028"]
    vocabulary: Vocabulary = VOCABULARIES[kind].from_lines(lines)
    assert vocabulary.kind == kind
    assert vocabulary.size == len(lines)
    assert vocabulary.lines() == lines


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([], "no entries"),
        (["[UNK]", "a", "a"], "line 3: 'a' appears twice"),
        (["[UNK]", ""], "line 2"),
        (["[UNK]", "a\nb"], "line 2"),
    ],
)
def test_an_ambiguous_vocabulary_is_refused(lines: list[str], fault: str) -> None:
    for kind in VOCABULARIES.values():
        with pytest.raises(InputError, match=fault):
            kind.from_lines(lines)
    with pytest.raises(InputError, match=r"no \[UNK\] entry"):
        WordPiece.from_lines(["a", "b"])
