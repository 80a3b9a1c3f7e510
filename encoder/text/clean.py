"""The cleaning of posts and articles, chunk by chunk: a chunk is what stands between white space.

A chunk is cleaned without a look at its neighbours, so that the tokenizer can remember the result.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.support.letters import Characters, limit_marks
from encoder.text.split import invisible

POST_CHARS = 8192
ARTICLE_CHARS = 131_072

Article: TypeAlias = str | tuple[str, str]
T = TypeVar("T")

QUOTES = dict.fromkeys("’‘‛‚ʼ´′", "'") | dict.fromkeys("“”„‟«»″", '"')
WIDTHS = ("<wide>", "<narrow>")
STYLES = ("<font>", "<circle>", "<square>")

ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z]\w{1,30});")
RETWEET = re.compile(r"(?<![^\W_])RT:?\s*+(?=[@＠])")
URL = re.compile(
    r"""https?://t\.co/[a-z\d]*+…?                      # words may be glued to it: it ends here
      | (?:h|(?<!t))tt++ps?(?::|…|\.\.\.)[^\s"<>…]*+…?
      | (?<![^\W_])ht?t?…                               # cut off by a limit on characters
      | (?:www\.[a-z\d-]++\.|pic\.twitter\.com)[^\s"<>…]*+…?
      | (?<![\w@.-])(?:[a-z\d-]++\.)++
        (?:com|org|net|gov|edu|int|info|news|io|co|ca|uk|us|eu|au|ly|me|gl|be|tv)/[^\s"<>…]*+…?
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
MENTION = re.compile(
    r"""(?<!\w)@[\w-]*+(?:\.[a-z][a-z\d-]*+)*+          # @user, @user.bsky.social
        (?:@[\w.-]++)*+ (?:'s\b)? :?                    # @user@mastodon.social, @user's, @user:
    """,
    re.VERBOSE | re.ASCII,
)
HANDLE = re.compile(r"(?<!\w)@(?=\w)", re.ASCII)
HASHTAG = re.compile(r"#(\w++)")
HASHTAG_BREAK = re.compile(
    r"""(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])                 # Hurricane|Sandy
      | (?<=[A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ])      # NYC|Marathon
      | (?<=\d)(?=[^\W\d_]) | (?<=[^\W\d_])(?=\d)       # Sandy|2012
      | _++
    """,
    re.VERBOSE,
)
LINK_SIGN = re.compile(r"/|…|www|http|pic\.", re.IGNORECASE).search
# World War III, the KKK and the AAA are not drawn-out letters
DRAWN_OUT = re.compile(r"([^\W\d_])\1{2,}(?:(?<!\b[A-Z]{3})|(?=\w))")


def plain(char: str) -> str:
    """What the cleaning makes of one character: nothing, a space, its plain form, or itself."""
    if char in QUOTES:
        return QUOTES[char]
    if char.isspace():
        return " "
    if invisible(char) or is_variation_selector(char):
        return ""
    if is_dressed_up(char):
        return unicodedata.normalize("NFKC", char)
    return " " if pictorial(char) else char


def is_variation_selector(char: str) -> bool:
    """Whether a character only says which of its forms the one before it has."""
    marks = unicodedata.category(char) == "Mn"
    return marks and unicodedata.name(char, "").startswith("VARIATION SELECTOR")


def is_dressed_up(char: str) -> bool:
    """Whether a character is another's full-width, mathematical or circled form, or a ligature."""
    style = unicodedata.decomposition(char).partition(" ")[0]
    if not style.startswith("<"):
        return False
    bare = unicodedata.normalize("NFKC", char)
    if style == "<compat>":
        return bare.isascii() and bare.isalnum()
    return style in WIDTHS or (style in STYLES and bare.isalnum())


def pictorial(char: str) -> bool:
    """Whether a character is an emoji, a part of one, or another picture among the symbols."""
    in_emoji_blocks = "\U0001f000" <= char <= "\U0001faff"
    return in_emoji_blocks or unicodedata.category(char) in ("So", "Me")


PLAIN = Characters(plain)


def tag_words(match: re.Match[str]) -> str:
    """A hashtag as one word, followed by the words it is made of if there are several."""
    parts = HASHTAG_BREAK.sub(" ", match[1]).split()
    words = parts if len(parts) > 1 else []
    return f" {''.join(parts)} {' '.join(words)} "


def resolved(entity: re.Match[str]) -> str:
    """The character an HTML entity stands for; an unknown entity stays as it is."""
    return html.unescape(entity[0])


def characters(text: str) -> str:
    """The text in plain characters, its entities resolved twice, as some sources escape twice."""
    if "&" in text:
        text = ENTITY.sub(resolved, ENTITY.sub(resolved, text))
    if text.isascii() and text.isprintable():
        return text
    return unicodedata.normalize("NFC", limit_marks(text.translate(PLAIN)))


def clean_chunk(chunk: str, side: Side) -> str:
    """One chunk, cleaned: what is left of it, which may be nothing or several words."""
    text = characters(chunk)
    if LINK_SIGN(text):
        text = URL.sub(" ", text)
    if "#" in text:
        text = HASHTAG.sub(tag_words, text)
    if "@" in text:
        text = MENTION.sub(" ", text) if side is Side.POST else HANDLE.sub("", text)
    return DRAWN_OUT.sub(r"\1\1", text) if side is Side.POST else text


def post_text(post: str) -> str:
    """A post up to the cap on its characters and without `RT @user:`'s RT."""
    text = post[:POST_CHARS]
    return RETWEET.sub(" ", text) if "RT" in text else text


def post_chunks(post: str) -> list[str]:
    return post_text(post).split()


def article_text(article: Article) -> str:
    """An article, its title first, up to the cap on its characters."""
    if isinstance(article, tuple):
        article = f"{article[0][:ARTICLE_CHARS]}\n{article[1][:ARTICLE_CHARS]}"
    return article[:ARTICLE_CHARS]


def article_chunks(article: Article) -> list[str]:
    return article_text(article).split()


def clean_post(post: str) -> str:
    """A post as the encoder reads it, its words set apart by single spaces."""
    return " ".join(" ".join(clean_chunk(c, Side.POST) for c in post_chunks(post)).split())


def clean_article(article: Article) -> str:
    """An article as the encoder reads it, its words set apart by single spaces."""
    chunks = article_chunks(article)
    return " ".join(" ".join(clean_chunk(c, Side.ARTICLE) for c in chunks).split())


def each_of(texts: Iterable[T], side: Side) -> Iterator[T]:
    """The texts one by one; what is no collection of them is refused with the remedy."""
    kind = type(texts).__name__
    if isinstance(texts, str | bytes):
        raise InputError(f"texts: a single {kind} was given; put it into a list")
    if hasattr(texts, "columns") or isinstance(texts, Mapping):
        raise InputError(f'texts: a {kind} was given; take its texts, as in table["text"]')
    if side is Side.ARTICLE and is_pair(texts):
        raise InputError("texts: a bare (title, text) was given; put it into a list")
    try:
        return iter(texts)
    except TypeError:
        raise InputError(f"texts: a {kind} was given; give a list of texts") from None


def is_pair(value: object) -> bool:
    """Whether this is a (title, text)."""
    return isinstance(value, tuple) and [isinstance(part, str) for part in value] == [True, True]


def checked(texts: Iterable[T], side: Side) -> list[T]:
    """The texts as a list; what is no text is refused by its place and its type."""
    listed = list(each_of(texts, side))
    if set(map(type, listed)) <= {str}:
        return listed
    for i, text in enumerate(listed):
        if not isinstance(text, str) and not (side is Side.ARTICLE and is_pair(text)):
            name = "posts" if side is Side.POST else "articles"
            expected = "str" if side is Side.POST else "str or a tuple (title, text) of two str"
            raise InputError(f"{name}[{i}]: {type(text).__name__}, expected {expected}")
    return listed
