"""Text for the tests: real posts and articles, and what hypothesis should make of Unicode."""

import gzip
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

from hypothesis import strategies as st
from tokenizers import Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import WordPiece

from encoder.model.config import Side
from encoder.support.named import MODELS, VOCABULARY

ALL = os.environ.get("NEWSIFT_ALL_POSTS") == "1"
EVERY = 1 if ALL else 50
POSTS = ("tweets", "pairs", "crisis")

# fmt: off
FRAGMENTS = (
    "RT @user:", "RT", "@ART", "@", "#HurricaneSandy", "#a_b", "#NYC2012", "#Ünïcode", "@user",
    ".@User’s", "@a.bsky.social", "a@b.ca", "https://t.co/AbC123…", "https://t.c…", "http…",
    "www.a.com/b", "yearshttp://a.b/c?d=1#e", "pic.twitter.com/x", "&amp;", "&amp;lt;", "&nbsp;",
    "&#39;", "&#x1f602;", "&#0;", "&bogus;", "sooooo", "III", "don’t", "“quoted”", "Ｆｕｌｌ",
    "𝒻𝓃𝓉", "ﬁne", "№5", "½", "😂👍🏽", "1️⃣", "🇨🇦", "≠", "a\u200db", "a\u202eb", "a\x00b", "\ufffd",
    "\ud83d", "漢字とかな", "ΟΔΟΣ", "İstanbul", "e\u0301", "\x85", "\x1c", "\x0b", "Toronto,",
    "7.5",
)
# fmt: on
wild_text = st.one_of(
    st.text(max_size=40),
    st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=6), max_size=12).map(" ".join),
    st.lists(st.sampled_from(FRAGMENTS), max_size=5).map("".join),
)


def rows(file: Path) -> Iterator[dict[str, str]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def real_posts(shared: Path, every: int = EVERY) -> list[str]:
    """Every so many-th post of each file of posts; all of them when NEWSIFT_ALL_POSTS is 1."""
    posts = []
    for folder in POSTS:
        for file in sorted((shared / "data" / folder).glob("*.jsonl.gz")):
            texts = [row.get("text") or row.get("post") or row.get("vclaim") for row in rows(file)]
            posts += [text for text in texts[::every] if text]
    return posts


def real_articles(shared: Path, count: int = 40) -> list[tuple[str, str]]:
    articles = []
    for file in sorted((shared / "data" / "articles").glob("*.jsonl.gz")):
        result = (row for row, _ in zip(rows(file), range(count), strict=False))
        articles += [(row["title"], row["article"]) for row in result]
    return articles


def encodable(text: str) -> str:
    """The text without lone surrogates, which no other library takes."""
    return text.encode("utf-8", "ignore").decode()


def vocabulary_lines() -> list[str]:
    """The word pieces of the model that ships, which are MiniLM's."""
    file = MODELS / "default" / VOCABULARY
    return file.read_text(encoding="utf-8").removesuffix("\n").split("\n")


def their_word_piece(lines: list[str]) -> Tokenizer:
    ids = {entry: i for i, entry in enumerate(lines)}
    theirs = Tokenizer(WordPiece(ids, unk_token="[UNK]", max_input_chars_per_word=100))
    theirs.normalizer = normalizers.BertNormalizer()
    theirs.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return theirs


LINK = r"https?://t\.co/[a-zA-Z\d]++…?|https?://(?!(?i:t\.co/))[!#-%'-;=?-~]++…?"
PASSING = {
    Side.POST: re.compile(rf"{LINK}|@\w++:?", re.ASCII).fullmatch,
    Side.ARTICLE: re.compile(LINK, re.ASCII).fullmatch,
}
