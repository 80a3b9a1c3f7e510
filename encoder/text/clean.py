"""Clean posts and articles, one chunk at a time; chunks are separated by white space.

The result depends on the chunk alone, so the tokenizer can cache it.
"""

import html
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias, TypeVar

from encoder.errors import InputError
from encoder.model.config import Side
from encoder.support.letters import TranslationTable, limit_marks
from encoder.text.split import is_invisible

POST_CHARS = 8192
POST_TOKENS = 512  # What follows the chunk with the last of them is not read.
ARTICLE_CHARS = 131_072

Article: TypeAlias = str | tuple[str, str]
T = TypeVar("T")

QUOTES = dict.fromkeys("’‘‛‚ʼ´′", "'") | dict.fromkeys("“”„‟«»″", '"')
WIDTHS = ("<wide>", "<narrow>")
STYLES = ("<font>", "<circle>", "<square>")

ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][\da-fA-F]{1,6}|[a-zA-Z]\w{1,30});")
RETWEET = re.compile(r"(?<![^\W_])RT:?\s*+(?=[@＠])")
# No group is repeated possessively: up to Python 3.11.4, `re` then matches what it should not.
URL = re.compile(
    r"""https?://t\.co/[a-z\d]*+…?                      # ends here, even if a word follows directly
      | (?:h|(?<!t))tt++ps?(?::|…|\.\.\.)[^\s"<>…]*+…?
      | (?<![^\W_])ht?t?…                               # cut off by a limit on characters
      | (?:www\.[a-z\d-]++\.|pic\.twitter\.com)[^\s"<>…]*+…?
      | (?<![\w@.-])(?:[a-z\d-]++\.)+
        (?:com|org|net|gov|edu|int|info|news|io|co|ca|uk|us|eu|au|ly|me|gl|be|tv)/[^\s"<>…]*+…?
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
MENTION = re.compile(
    r"""(?<!\w)@[\w-]*+(?:\.[a-z][a-z\d-]*+)*           # @user, @user.bsky.social
        (?:@[\w.-]++)* (?:'s\b)? :?                     # @user@mastodon.social, @user's, @user:
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
MAY_CONTAIN_URL = re.compile(r"/|…|www|http|pic\.", re.IGNORECASE).search
MAY_REPEAT_LETTERS = re.compile(r"(.)\1\1").search  # a tenth of the time of the next
# Not repeated letters: World War III, the KKK, the AAA.
REPEATED_LETTERS = re.compile(r"([^\W\d_])\1{2,}(?:(?<!\b[A-Z]{3})|(?=\w))")


def to_plain(char: str) -> str:
    """Replace a character by its plain form, a space or nothing, or leave it unchanged."""
    if char in QUOTES:
        return QUOTES[char]
    if char.isspace():
        return " "
    if is_invisible(char) or is_variation_selector(char):
        return ""
    if is_stylised(char):
        return unicodedata.normalize("NFKC", char)
    return " " if is_pictorial(char) else char


def is_variation_selector(char: str) -> bool:
    marks = unicodedata.category(char) == "Mn"
    return marks and unicodedata.name(char, "").startswith("VARIATION SELECTOR")


def is_stylised(char: str) -> bool:
    """Whether a character is a ligature, or a full-width, mathematical or circled form."""
    style = unicodedata.decomposition(char).partition(" ")[0]
    if not style.startswith("<"):
        return False
    bare = unicodedata.normalize("NFKC", char)
    if style == "<compat>":
        return bare.isascii() and bare.isalnum()
    return style in WIDTHS or (style in STYLES and bare.isalnum())


def is_pictorial(char: str) -> bool:
    """Whether a character is an emoji, part of an emoji, or another pictorial symbol."""
    in_emoji_blocks = "\U0001f000" <= char <= "\U0001faff"
    return in_emoji_blocks or unicodedata.category(char) in ("So", "Me")


PLAIN = TranslationTable(to_plain)


def expand_hashtag(match: re.Match[str]) -> str:
    """Return a hashtag as one word, followed by its parts if there are several."""
    parts = HASHTAG_BREAK.sub(" ", match[1]).split()
    words = parts if len(parts) > 1 else []
    return f" {''.join(parts)} {' '.join(words)} "


def decode_entity(entity: re.Match[str]) -> str:
    """Decode an HTML entity; an unknown entity is unchanged."""
    return html.unescape(entity[0])


def normalise(text: str) -> str:
    """Normalise the characters of a text. Entities are decoded twice: some sources escape twice."""
    if "&" in text:
        text = ENTITY.sub(decode_entity, ENTITY.sub(decode_entity, text))
    if text.isascii() and text.isprintable():
        return text
    return unicodedata.normalize("NFC", limit_marks(text.translate(PLAIN)))


def clean_chunk(chunk: str, side: Side) -> str:
    """Clean one chunk; the result may be empty or contain several words."""
    text = chunk
    if not (chunk.isascii() and chunk.isalnum()):  # a plain word needs none of these
        text = normalise(chunk)
        if MAY_CONTAIN_URL(text):
            text = URL.sub(" ", text)
        if "#" in text:
            text = HASHTAG.sub(expand_hashtag, text)
        if "@" in text:
            text = MENTION.sub(" ", text) if side is Side.POST else HANDLE.sub("", text)
    if side is Side.POST and MAY_REPEAT_LETTERS(text):
        text = REPEATED_LETTERS.sub(r"\1\1", text)
    return text


def post_text(post: str) -> str:
    """Truncate a post and remove the `RT` of `RT @user:`."""
    text = post[:POST_CHARS]
    return RETWEET.sub(" ", text) if "RT" in text else text


def post_chunks(post: str) -> list[str]:
    return post_text(post).split()


def article_text(article: Article) -> str:
    """Join title and text, and truncate."""
    if isinstance(article, tuple):
        article = f"{article[0][:ARTICLE_CHARS]}\n{article[1][:ARTICLE_CHARS]}"
    return article[:ARTICLE_CHARS]


def article_chunks(article: Article) -> list[str]:
    return article_text(article).split()


def clean_post(post: str) -> str:
    """Return a post as the encoder reads it, with single spaces between words."""
    return " ".join(" ".join(clean_chunk(c, Side.POST) for c in post_chunks(post)).split())


def clean_article(article: Article) -> str:
    """Return an article as the encoder reads it, with single spaces between words."""
    chunks = article_chunks(article)
    return " ".join(" ".join(clean_chunk(c, Side.ARTICLE) for c in chunks).split())


def each_of(texts: Iterable[T], side: Side) -> Iterator[T]:
    """Iterate over texts; raise InputError if the argument is not a collection of texts."""
    kind = type(texts).__name__
    if isinstance(texts, str | bytes):
        raise InputError(f"texts: a single {kind} was given; put it into a list")
    if hasattr(texts, "columns") or isinstance(texts, Mapping):
        raise InputError(f'texts: a {kind} was given; take its texts, as in table["text"]')
    if side is Side.ARTICLE and is_pair(texts):
        raise InputError("texts: a bare (title, text) was given; put it into a list")
    if hasattr(texts, "to_pylist"):  # an array of pyarrow, whose items are no str
        texts = texts.to_pylist()
    try:
        return iter(texts)
    except TypeError:
        raise InputError(f"texts: a {kind} was given; give a list of texts") from None


def is_pair(value: object) -> bool:
    return isinstance(value, tuple) and [isinstance(part, str) for part in value] == [True, True]


def validate_texts(texts: Iterable[T], side: Side) -> list[T]:
    """Return the texts as a list; raise InputError with the index and type of an invalid item."""
    items = texts if isinstance(texts, list) else list(each_of(texts, side))
    if set(map(type, items)) <= {str}:
        return items
    for i, text in enumerate(items):
        if not isinstance(text, str) and not (side is Side.ARTICLE and is_pair(text)):
            name = "posts" if side is Side.POST else "articles"
            expected = "str" if side is Side.POST else "str or a tuple (title, text) of two str"
            raise InputError(f"{name}[{i}]: {type(text).__name__}, expected {expected}")
    return items
