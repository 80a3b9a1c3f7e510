"""How text of many scripts falls into words, and what of a word is compared with other texts.

Where no spaces stand, a run of letters is read twice: cut into the longest known pieces,
which make the dense half, and as pairs of neighbouring signs, which make the words half.
"""

import re
import unicodedata
from itertools import pairwise
from typing import NamedTuple

from encoder.support.letters import Characters, limit_marks
from encoder.text.split import spaced

HAN = "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ebe0\U0002f800-\U0002fa1f"
KANA = "\u3099\u309a\u30a1-\u30fa\u30fc-\u30fe"
THAI = "\u0e01-\u0e3a\u0e40-\u0e4e"
UNSPACED = f"{HAN}\u3041-\u3096\u309d-\u309f{KANA}\uac00-\ud7a3{THAI}"
RUN = re.compile(
    f"[{HAN}]+|[\u3041-\u3096\u3099\u309a\u309d-\u309f]+|[{KANA}]+|[\uac00-\ud7a3]+|[{THAI}]+"
)
JOINED = re.compile(f"[{UNSPACED}]")
# A consonant of Thai with the vowels and tones around it is one sign.
SIGN = re.compile("[\u0e40-\u0e44]?[\u0e01-\u0e2e][\u0e30-\u0e3a\u0e45\u0e47-\u0e4e]{0,4}|.")
SPELLING_MARKS = re.compile("[\u0e31-\u0e3a\u0e47-\u0e4e\u3099\u309a]")

MIN_STEM_CHARS = 3
ARABIC = re.compile("[\u0621-\u064a]+")
ARABIC_FORMS = str.maketrans({"\u0649": "\u064a", "\u0629": "\u0647", "\u0640": ""})
ARTICLES = ("وبال", "وكال", "فبال", "وال", "بال", "كال", "فال", "ولل", "ال", "لل")
AND = "و"
CYRILLIC = re.compile("[\u0430-\u044f\u0456\u0457\u0454]+")
ENDINGS = frozenset("аеиоуыэюяьмх")
MAX_ENDING = 3
CYRILLIC_STEM = 4


class ScriptPart(NamedTuple):
    """A word as it is shown, the letters that its ids are made of, and those of its slot."""

    text: str
    letters: str
    term: str


def without_mark(char: str) -> str:
    """What folding leaves of one character: nothing of an accent that is no letter by itself."""
    gone = unicodedata.category(char) == "Mn" and not SPELLING_MARKS.match(char)
    return "" if gone else char


def set_apart(char: str) -> str:
    """What the split makes of one character: as BERT's, but ideographs and kana stand together."""
    return char if JOINED.match(char) else spaced(char)


WITHOUT_MARKS = Characters(without_mark)
SET_APART = Characters(set_apart)


def fold_scripts(word: str) -> str:
    """The word in lower case and without accents, its vowels and tones of Thai and kana kept."""
    if word.isascii():
        return word.lower()
    bare = unicodedata.normalize("NFD", limit_marks(word)).translate(WITHOUT_MARKS)
    whole = unicodedata.normalize("NFC", bare.replace("Σ", "σ").lower())
    return whole.translate(ARABIC_FORMS)


def split_scripts(text: str) -> list[str]:
    """The words of a text: plain words, and runs of signs of one script that has no spaces."""
    return [part for word in text.translate(SET_APART).split() for part in runs(word)]


def runs(word: str) -> list[str]:
    """A word between white space as its plain parts and its runs, in turn."""
    if word.isascii() or not JOINED.search(word):
        return [word]
    parts, end = [], 0
    for run in RUN.finditer(word):
        parts += [word[end : run.start()], run[0]]
        end = run.end()
    return [part for part in (*parts, word[end:]) if part]


def pairs(run: str) -> list[str]:
    """The pairs of neighbouring signs of a run; a sign alone is one by itself."""
    signs: list[str] = SIGN.findall(run)
    return [a + b for a, b in pairwise(signs)] or signs


def stem(word: str) -> str:
    """A folded word without what its grammar adds, for scripts in which that hides a name."""
    if ARABIC.fullmatch(word):
        return arabic_stem(word)
    return cyrillic_stem(word) if CYRILLIC.fullmatch(word) else word


def arabic_stem(word: str) -> str:
    """The word without its article and what is written before it, or without `and`.

    Other clitics of one letter stay: they look like the first letter of a name.
    """
    for article in ARTICLES:
        if word.startswith(article) and len(word) - len(article) >= MIN_STEM_CHARS:
            return word[len(article) :]
    return word[1:] if word.startswith(AND) and len(word) > MIN_STEM_CHARS else word


def cyrillic_stem(word: str) -> str:
    """The word without the vowels of its case."""
    end, least = len(word), max(CYRILLIC_STEM, len(word) - MAX_ENDING)
    while end > least and word[end - 1] in ENDINGS:
        end -= 1
    return word[:end]
