"""Split text of many scripts into words, and reduce words to comparable terms.

Scripts without spaces are written in runs. A run is read twice: as the longest vocabulary entries
for the dense half, and as bigrams of characters for the words half.
"""

import re
import unicodedata
from itertools import pairwise
from typing import NamedTuple

from encoder.support.letters import Characters, limit_marks
from encoder.text.split import separate

HAN = "\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002ebe0\U0002f800-\U0002fa1f"
KANA = "\u3099\u309a\u30a1-\u30fa\u30fc-\u30fe"
THAI = "\u0e01-\u0e3a\u0e40-\u0e4e"
UNSPACED = f"{HAN}\u3041-\u3096\u309d-\u309f{KANA}\uac00-\ud7a3{THAI}"
RUN = re.compile(
    f"[{HAN}]+|[\u3041-\u3096\u3099\u309a\u309d-\u309f]+|[{KANA}]+|[\uac00-\ud7a3]+|[{THAI}]+"
)
JOINED = re.compile(f"[{UNSPACED}]")
# A Thai consonant with its vowels and tone marks is one unit.
CHARACTER = re.compile("[\u0e40-\u0e44]?[\u0e01-\u0e2e][\u0e30-\u0e3a\u0e45\u0e47-\u0e4e]{0,4}|.")
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
    """A word as displayed, the letters for its token ids, and the term for its slot."""

    text: str
    letters: str
    term: str


def remove_mark(char: str) -> str:
    """Delete an accent, except marks that spell a vowel or tone."""
    is_accent = unicodedata.category(char) == "Mn" and not SPELLING_MARKS.match(char)
    return "" if is_accent else char


def separate_scripts(char: str) -> str:
    """Like BERT's split, but ideographs and kana are not separated."""
    return char if JOINED.match(char) else separate(char)


WITHOUT_MARKS = Characters(remove_mark)
SEPARATE_SCRIPTS = Characters(separate_scripts)


def fold_scripts(word: str) -> str:
    """Lower-case a word and remove accents, except the marks of Thai and kana."""
    if word.isascii():
        return word.lower()
    bare = unicodedata.normalize("NFD", limit_marks(word)).translate(WITHOUT_MARKS)
    whole = unicodedata.normalize("NFC", bare.replace("Σ", "σ").lower())
    return whole.translate(ARABIC_FORMS)


def split_scripts(text: str) -> list[str]:
    """Split a text into words, and into runs of one script without spaces."""
    return [part for word in text.translate(SEPARATE_SCRIPTS).split() for part in runs(word)]


def runs(word: str) -> list[str]:
    """Split a string without white space into runs and the parts between them."""
    if word.isascii() or not JOINED.search(word):
        return [word]
    parts, end = [], 0
    for run in RUN.finditer(word):
        parts += [word[end : run.start()], run[0]]
        end = run.end()
    return [part for part in (*parts, word[end:]) if part]


def pairs(run: str) -> list[str]:
    """Return the bigrams of a run; a single character is returned alone."""
    characters: list[str] = CHARACTER.findall(run)
    return [a + b for a, b in pairwise(characters)] or characters


def stem(word: str) -> str:
    """Stem a folded word of Arabic or Cyrillic script, where inflection would hide a name."""
    if ARABIC.fullmatch(word):
        return arabic_stem(word)
    return cyrillic_stem(word) if CYRILLIC.fullmatch(word) else word


def arabic_stem(word: str) -> str:
    """Remove the article with its prefixes, or the prefix for "and".

    Other one-letter prefixes are not removed: a name may start with the same letter.
    """
    for article in ARTICLES:
        if word.startswith(article) and len(word) - len(article) >= MIN_STEM_CHARS:
            return word[len(article) :]
    return word[1:] if word.startswith(AND) and len(word) > MIN_STEM_CHARS else word


def cyrillic_stem(word: str) -> str:
    """Remove the case ending."""
    end, least = len(word), max(CYRILLIC_STEM, len(word) - MAX_ENDING)
    while end > least and word[end - 1] in ENDINGS:
        end -= 1
    return word[:end]
