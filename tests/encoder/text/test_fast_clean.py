"""The compiled cleaning against the rules in Python."""

from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.model.config import AstConfig, Side
from encoder.model.weights import I32, I64
from encoder.score.lexical import NO_SLOT, SLOTS, Idf
from encoder.text.fast_clean import expand, make_buffers, scan
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordPiece
from tests.encoder.wild import FRAGMENTS, PASSING, vocabulary_lines, wild_text

IDF = Idf(np.random.default_rng(0).uniform(0, 9, SLOTS).astype(np.float32))
OURS = Tokenizer(
    WordPiece.from_lines(vocabulary_lines()), IDF, AstConfig(post_tokens=2048, article_tokens=2048)
)
# fmt: off
EVERYDAY = (
    "storm", "Storm,", "don’t", "“quoted”", "#storm", "#HurricaneSandy", "#NYC2012's", "a#b", "##b",
    "#", "...", "…", "the…", "right…", "😂👍🏽", "❤️", "a\u200db", "Q&A", "and/or", "w/", "7.5",
    "unaffable", "zzxqj", "ab" * 48, "AAbb", "#NOT|", "a~b",
)
NOT_EVERYDAY = (
    "café", "soooo", "&amp;", "a@b", "a/b.ca/c", "yearshttp://a.b", "htt…", "(h…", "ab" * 49,
    "#a_b", "a.b…", "漢", "\x00", "\ud83d", "pic.twitter.com", "´", "½", "http:", "aAa",
)
# fmt: on
SIGNS = "aAbBhHtTpPsScCoOwWiI019._#@/:;&…’'\"-”\ufe0f\u200d😂❤é |<\x1c\x85\xa0\u2009\u3000"
clumsy_link = st.builds(
    lambda *parts: "".join(parts),
    st.sampled_from(["http://", "https://", "HTTP://", "http:/", "@", "@@"]),
    st.sampled_from(["t.co/", "T.co/", "t.cO/", "t.co", "a.b/", ""]),
    st.text("aZ0_-…é.:", max_size=4),
)
chunks = st.one_of(
    st.text(SIGNS, max_size=12), st.sampled_from(FRAGMENTS + NOT_EVERYDAY), clumsy_link
)


def compiled(text: str, side: Side = Side.POST) -> tuple[list[list[int]], list[int]]:
    """The ids of a text that compiled code alone reads, its slots, and what it left as misses."""
    bodies, places, ends, misses = scanned(text, side)
    if len(misses):
        return [], misses.tolist()
    ids, _, slots, _ = expand(bodies, places, ends, 10_000)
    return [ids.tolist(), slots.tolist()], []


def scanned(text: str, side: Side, known: bool = True) -> tuple[I32, I64, I64, I64]:
    """What the first pass makes of a text, by a known vocabulary or by none."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    lexicon, buffers = OURS._lexicon._replace(usable=known), make_buffers()
    bounds, post = np.array([0, len(data)], np.int64), side is Side.POST
    result: tuple[I32, I64, I64, I64] = scan(data, bounds, lexicon, OURS._characters, buffers, post)
    return result


def ruled(text: str, side: Side = Side.POST) -> list[list[int]]:
    words = [word for chunk in text.split() for word in OURS._read(side, chunk)]
    slots = [word.slot for word in words if word.slot != NO_SLOT]
    return [[i for word in words for i in word.ids], slots]


@pytest.mark.parametrize("chunk", EVERYDAY, ids=ascii)
def test_everyday_chunks_are_read_by_compiled_code_alone(chunk: str) -> None:
    for side in Side:
        assert compiled(chunk, side) == (ruled(chunk, side), [])


@settings(deadline=None, max_examples=100)
@given(st.lists(chunks | wild_text, max_size=4).map("".join), st.sampled_from(Side))
def test_compiled_code_reads_like_the_rules(text: str, side: Side) -> None:
    for chunk in text.split():
        result, missed = compiled(chunk, side)
        assert missed or result == ruled(chunk, side), chunk


@settings(deadline=None, max_examples=100)
@given(st.text(SIGNS, max_size=30) | wild_text)
def test_chunks_are_those_of_str_split(text: str) -> None:
    data = text.encode("utf-8", "surrogatepass")
    _, _, _, misses = scanned(text, Side.POST, known=False)
    result = [data[a:b].decode("utf-8", "surrogatepass") for a, b in misses.reshape(-1, 2).tolist()]
    assert result == [chunk for chunk in text.split() if not PASSING[Side.POST](chunk)]


def test_every_character_is_read_like_the_rules() -> None:
    for code in [*range(0x100), *range(0x2000, 0x2C00), *range(0x1F000, 0x1FB10)]:
        result, missed = compiled(f"a{chr(code)}b")
        assert missed or result == ruled(f"a{chr(code)}b"), hex(code)


def test_words_with_colliding_crc32_are_distinct() -> None:
    first, second = "plumless", "buckeroo"
    assert crc32(first.encode()) == crc32(second.encode())
    vocabulary = WordPiece.from_lines(["[UNK]", "…", first])
    tokens = Tokenizer(vocabulary, None, AstConfig(post_tokens=8)).posts([f"{first} {second}"])
    assert tokens.ids.tolist() == [2, 0]
