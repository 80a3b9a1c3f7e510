"""Fold case and accents, and limit combining marks."""

import re
import unicodedata
from collections.abc import Callable
from itertools import compress

import numpy as np
from numpy.typing import NDArray

MAX_ENTRIES = 2**14  # of a table
MAX_MARKS = 30  # combining marks per letter, as in Unicode's stream-safe text format
MARKS_END = 0x1F000  # above the codes of all marks
RARE_MARKS = "\U000101fd-\U0001d244\U0001e000-\U0001e94a"  # all marks beyond the first plane


class TranslationTable(dict[int, str]):
    """For str.translate: what a rule for single characters gives, computed when it is needed."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self.rule = rule

    def __missing__(self, code: int) -> str:
        if len(self) >= MAX_ENTRIES:
            self.clear()  # rare characters must not fill it for ever
        value = self[code] = self.rule(chr(code))
        return value


def remove_accent(char: str) -> str:
    return "" if unicodedata.category(char) == "Mn" else char


def is_mark(char: str) -> bool:
    """Whether a character's decomposition starts with a mark that has a combining class."""
    if unicodedata.category(char)[0] != "M":
        return False
    return unicodedata.combining(unicodedata.normalize("NFD", char)[0]) > 0


WITHOUT_ACCENTS = TranslationTable(remove_accent)
MARKS = list(filter(is_mark, map(chr, range(0x300, MARKS_END))))
IS_MARK = np.zeros(MARKS_END + 1, np.bool_)
IS_MARK[list(map(ord, MARKS))] = True
# Beyond the first plane a few long ranges: a pattern of many short ones is slow.
COMMON_MARKS = "".join(char for char in MARKS if char < "\U00010000")
TWO_MARKS = re.compile(f"[{COMMON_MARKS}{RARE_MARKS}]{{2}}")


def mark_numbers(text: str) -> NDArray[np.int64]:
    """The position of each mark among the marks of its letter, from 1; 0 for other characters."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    marks = IS_MARK[np.minimum(codes, MARKS_END)]
    positions = np.arange(len(codes))
    return positions - np.maximum.accumulate(np.where(marks, -1, positions))


def marks_beyond(text: str, limit: int) -> int:
    """The most combining marks on a letter if that exceeds a limit of 1 or more; otherwise 0."""
    if text.isascii():
        return 0
    # A mark takes two bytes or more. This bound costs less than the pattern.
    may_exceed = len(text.encode("utf-8", "surrogatepass")) - len(text) > limit
    if not (may_exceed and TWO_MARKS.search(text)):
        return 0
    most = int(mark_numbers(text).max())
    return most if most > limit else 0


def limit_marks(text: str) -> str:
    """Remove marks beyond MAX_MARKS per letter: normalising n marks takes n² steps."""
    if not marks_beyond(text, MAX_MARKS):
        return text
    within_limit = mark_numbers(text) <= MAX_MARKS
    return "".join(compress(text, within_limit.tolist()))


def fold(word: str) -> str:
    """Lower-case a word and remove accents, as in BERT's uncased vocabularies."""
    if word.isascii():
        return word.lower()
    base = unicodedata.normalize("NFD", limit_marks(word)).translate(WITHOUT_ACCENTS)
    # str.lower alone turns a final Σ into ς
    return base.replace("Σ", "σ").lower()
