import re
import unicodedata
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.errors import InputError
from encoder.model.config import AstConfig, Side
from encoder.model.weights import I32, I64
from encoder.score.lexical import NO_SLOT, SLOTS, Idf
from encoder.text.clean import (
    ARTICLE_CHARS,
    POST_CHARS,
    Article,
    article_chunks,
    clean_article,
    clean_chunk,
    clean_post,
    post_chunks,
    validate_texts,
)
from encoder.text.fast_clean import expand, make_buffers, scan
from encoder.text.split import split_words
from encoder.text.tokenizer import Tokenizer
from encoder.text.vocabulary import WordPiece
from tests.encoder.real_texts import (
    FRAGMENTS,
    PASSING,
    real_articles,
    real_posts,
    vocabulary_lines,
    wild_text,
)


@pytest.mark.parametrize(
    ("post", "cleaned"),
    [
        ("Fire &amp; rain &lt;3 &#39;tis &quot;it&quot;", 'Fire & rain <3 \'tis "it"'),
        ("twice &amp;gt; escaped", "twice > escaped"),
        ("a&nbsp;b&#10;c AT&T R&D &bogus; Q&notes", "a b c AT&T R&D &bogus; Q&notes"),
        ("read https://t.co/AbC123 now http://x.com/a?b=1#c htttp://b.ly/1", "read now"),
        ("https://t.co/a1#Fire www.cbc.ca/x nytimes.com/2012/a", "Fire"),
        (
            "Ewww.gross U.S./Canada and/or either w/ http",
            "Eww.gross U.S./Canada and/or either w/ http",
        ),
        ("RT @user: storm", "storm"),
        ("RT before 5pm, says RT; START @ noon", "RT before 5pm, says RT; START noon"),
        ("@a .@B_c’s @d.bsky.social @e@m.social: @f@g@h hi", ". hi"),
        ("こんにちは@userさん", "こんにちは さん"),
        ("#HurricaneSandy", "HurricaneSandy Hurricane Sandy"),
        ("#yyc #ableg#abpoli in#yyc", "yyc ableg abpoli in yyc"),
        (
            "#NYCMarathon2012 #alberta_flood",
            "NYCMarathon2012 NYC Marathon 2012 albertaflood alberta flood",
        ),
        ("#東京Tower C# #_ #tag@user", "東京Tower C# tag"),
        ("fire🔥fire 👍🏽 🇨🇦 1️⃣ ❤️ 👨‍👩‍👧 20°C Brand™", "fire fire 1 20 C Brand"),
        ("sooooo coool NOOOO 1000 ...", "soo cool NOO 1000 ..."),
        (
            "zero\u200bwidth j\u200doin b\u202eidi\u202c soft\u00adhyphen \ufeffbom",
            "zerowidth join bidi softhyphen bom",
        ),
        ("nu\x00ll br\ufffdoken h\ud83dalf del\x7f c1\x9d", "null broken half del c1"),
        ("don’t ‘a’ “b” «c» don´t", "don't 'a' \"b\" \"c\" don't"),
        ("Ｆｒｅｅ！ ＃Ｎｅｗｓ ＠user 𝒸𝒽𝓇 ﬁne Ⓐ x² …", "Free! News chr fine A x² …"),
        ("e\u0301te\u0301", "été"),
        ("@user", ""),
        ("", ""),
        ("😂", ""),
    ],
)
def test_a_post_is_cleaned(post: str, cleaned: str) -> None:
    assert clean_post(post) == cleaned


@pytest.mark.parametrize(
    ("article", "cleaned"),
    [
        ("by @realDonaldTrump, me@cbc.ca", "by realDonaldTrump, me@cbc.ca"),
        ("Oooohs &amp; aaahs #YYCFlood http://a.b/c 🔥", "Oooohs & aaahs YYCFlood YYC Flood"),
        (("The Title", "The lead."), "The Title The lead."),
        (("", "  lead\n\nbody "), "lead body"),
        (("Title", ""), "Title"),
    ],
)
def test_an_article_is_cleaned(article: Article, cleaned: str) -> None:
    assert clean_article(article) == cleaned


def test_real_posts_come_out_clean_and_keep_their_words(shared: Path) -> None:
    remains = re.compile(
        r"https?:|\bt\.co/|pic\.twitter\.com|&(?:amp|lt|gt|quot|nbsp|#\d+);|(?<!\w)@\w", re.ASCII
    )
    simple = re.compile(r"(?!h?t?t?p?s?$)[a-z]+")
    posts = real_posts(shared)
    assert len(posts) > 3000
    for post in posts:
        cleaned = clean_post(post)
        assert not remains.search(cleaned), post
        chunks = iter(cleaned.split())
        for word in filter(simple.fullmatch, post.split()):
            if not re.search(r"(.)\1\1", word):
                assert word in chunks, (word, post)


def test_real_articles_keep_title_and_lead(shared: Path) -> None:
    for title, text in real_articles(shared, 10):
        words = re.findall(r"\b[a-z]{2,20}\b", f"{title} {text[:300]}".replace("&", " & "))[:20]
        result = iter(re.findall(r"\w+", clean_article((title, text))))
        assert [word for word in words if word not in result] == [], title


@given(st.lists(wild_text.filter(lambda text: "RT" not in text)))
def test_a_chunk_is_cleaned_whatever_its_neighbours(texts: list[str]) -> None:
    apart = " ".join(filter(None, map(clean_post, texts)))
    assert clean_post("\n".join(texts)) == apart


@given(wild_text)
def test_a_clean_text_has_only_visible_characters(text: str) -> None:
    for cleaned in (clean_post(text), clean_article(text)):
        assert cleaned == " ".join(cleaned.split())
        classes = {unicodedata.category(char) for char in cleaned}
        assert not classes & {"Cc", "Cf", "Co", "Cs", "So"}
        assert "\ufffd" not in cleaned


@given(
    st.text(st.sampled_from("aAbthpsRT01"), min_size=1, max_size=12)
    | st.sampled_from(["http", "www", "pic", "comORG", "RT", "https"]),
    st.sampled_from(Side),
)
def test_a_plain_word_is_cleaned_and_split_as_by_the_rules(word: str, side: Side) -> None:
    """A separator that the rules remove sends the same letters through all of them."""
    assert clean_chunk(word, side) == clean_chunk(f"{word}\u200b", side)
    assert split_words(word) == split_words(f"{word}\u200b") == [word]


@given(
    st.sampled_from(Side),
    st.text("https:/t.co@AZ09_…é\"<&;#'", max_size=30) | st.sampled_from(FRAGMENTS),
)
def test_links_and_mentions_are_cleaned_to_nothing(side: Side, rest: str) -> None:
    for chunk in (rest, f"https://t.co/{rest}", f"http://{rest}", f"@{rest}"):
        if PASSING[side](chunk):
            assert clean_chunk(chunk, side).strip() == ""


def test_no_more_is_read_than_the_cap() -> None:
    huge = "word " * 200_000
    assert sum(map(len, post_chunks(huge))) <= POST_CHARS
    assert sum(map(len, article_chunks(huge))) <= ARTICLE_CHARS
    assert clean_post(huge) == clean_post(huge[:POST_CHARS])
    assert article_chunks((huge, "unread")) == article_chunks(huge)
    assert article_chunks(("Title", huge)) == article_chunks("Title\n" + huge)
    assert post_chunks("#" + "x" * 1_000_000) == ["#" + "x" * (POST_CHARS - 1)]


@pytest.mark.parametrize(
    ("texts", "side", "fault"),
    [
        (["a", 7], Side.POST, r"posts\[1\]: int, expected str"),
        ([b"a"], Side.POST, r"posts\[0\]: bytes, expected str"),
        ([("a", "b")], Side.POST, r"posts\[0\]: tuple"),
        (["a", None], Side.ARTICLE, r"articles\[1\]: NoneType, expected str or a tuple"),
        ([("a",)], Side.ARTICLE, r"articles\[0\]: tuple"),
        ([("a", 1)], Side.ARTICLE, r"articles\[0\]: tuple"),
        ([["a", "b"]], Side.ARTICLE, r"articles\[0\]: list"),
        ("a post", Side.POST, "a single str was given; put it into a list"),
        (b"a post", Side.ARTICLE, "put it into a list"),
        ({"a post": 1}, Side.POST, "take its texts"),
        (7, Side.POST, "give a list of texts"),
        (None, Side.ARTICLE, "a NoneType was given; give a list"),
    ],
)
def test_a_bad_text_is_named_by_its_place(texts: Any, side: Side, fault: str) -> None:
    with pytest.raises(InputError, match=fault):
        list(validate_texts(texts, side))


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
    ids, _, slots, _ = expand(bodies, places, ends, (10_000, 10_000))
    return [ids.tolist(), slots.tolist()], []


def scanned(text: str, side: Side, known: bool = True) -> tuple[I32, I64, I64, I64]:
    """What the first pass makes of a text, by a known vocabulary or by none."""
    data = np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8)
    bounds, post = np.array([0, len(data)], np.int64), side is Side.POST
    lexicon, buffers = OURS._lexicon._replace(usable=known), make_buffers(bounds)
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


@settings(max_examples=100)
@given(st.lists(chunks | wild_text, max_size=4).map("".join), st.sampled_from(Side))
def test_compiled_code_reads_like_the_rules(text: str, side: Side) -> None:
    for chunk in text.split():
        result, missed = compiled(chunk, side)
        assert missed or result == ruled(chunk, side), chunk


@settings(max_examples=100)
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


@pytest.mark.parametrize(
    ("first", "second"), [("plumless", "buckeroo"), ("quickenaspjwwk", "quickenrnrsgud")]
)
def test_words_with_colliding_crc32_are_distinct(first: str, second: str) -> None:
    assert crc32(first.encode()) == crc32(second.encode())
    vocabulary = WordPiece.from_lines(["[UNK]", "…", first])
    tokens = Tokenizer(vocabulary, None, AstConfig(post_tokens=8)).posts([f"{first} {second}"])
    assert tokens.ids.tolist() == [2, 0]
