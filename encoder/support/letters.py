"""Letters and their marks: in lower case, without accents, and no more marks than can be borne."""

import re
import unicodedata
from collections.abc import Callable
from itertools import compress

import numpy as np
from numpy.typing import NDArray

REMEMBERED = 2**14
MAX_MARKS = 30  # combining marks on one letter that are read, as in Unicode's stream-safe text
BEYOND_MARKS = 0x1F000
RARE = "\U000101fd-\U0001d244\U0001e000-\U0001e94a"  # where all marks beyond the first plane are


class Characters(dict[int, str]):
    """A rule for single characters in the form str.translate wants, worked out when first met."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self.rule = rule

    def __missing__(self, code: int) -> str:
        if len(self) >= REMEMBERED:
            self.clear()  # so that rare ones do not keep the usual ones out for ever
        value = self[code] = self.rule(chr(code))
        return value


def without_accent(char: str) -> str:
    """What folding leaves of one character, marks apart: nothing of an accent."""
    return "" if unicodedata.category(char) == "Mn" else char


def is_mark(char: str) -> bool:
    """Whether a character begins, taken apart, with a mark that has a place in an order."""
    if unicodedata.category(char)[0] != "M":
        return False
    return unicodedata.combining(unicodedata.normalize("NFD", char)[0]) > 0


WITHOUT_ACCENTS = Characters(without_accent)
MARKS = list(filter(is_mark, map(chr, range(0x300, BEYOND_MARKS))))
IS_MARK = np.zeros(BEYOND_MARKS + 1, np.bool_)
IS_MARK[list(map(ord, MARKS))] = True
# Beyond the first plane a few long ranges, as a set of many short ones is searched slowly.
COMMON = "".join(char for char in MARKS if char < "\U00010000")
TWO_MARKS = re.compile(f"[{COMMON}{RARE}]{{2}}")


def mark_numbers(text: str) -> NDArray[np.int64]:
    """For each character how many marks it makes on its letter; 0 where it is none."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)
    marks = IS_MARK[np.minimum(codes, BEYOND_MARKS)]
    places = np.arange(len(codes))
    return places - np.maximum.accumulate(np.where(marks, -1, places))


def most_marks(text: str) -> int:
    """The combining marks on the letter that has most of them, 0 or 1 if none has two."""
    return int(mark_numbers(text).max()) if TWO_MARKS.search(text) else 0


def limit_marks(text: str) -> str:
    """The text with no more marks on a letter than are read: to put n in order takes n² steps."""
    if len(text) <= MAX_MARKS or most_marks(text) <= MAX_MARKS:
        return text
    plain = mark_numbers(text) <= MAX_MARKS
    return "".join(compress(text, plain.tolist()))


def fold(word: str) -> str:
    """The word in lower case and without accents, as BERT's uncased vocabularies write it."""
    if word.isascii():
        return word.lower()
    bare = unicodedata.normalize("NFD", limit_marks(word)).translate(WITHOUT_ACCENTS)
    # str.lower alone would turn a final Σ into ς
    return bare.replace("Σ", "σ").lower()
