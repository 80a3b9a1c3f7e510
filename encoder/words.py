"""How text falls into words: BERT's basic split, written once for both vocabularies."""

import unicodedata
from collections.abc import Callable

REMEMBERED = 4096
IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


class Characters(dict[int, str]):
    """A rule for single characters in the form str.translate wants, worked out when first met."""

    def __init__(self, rule: Callable[[str], str]) -> None:
        super().__init__()
        self.rule = rule

    def __missing__(self, code: int) -> str:
        value = self.rule(chr(code))
        if len(self) < REMEMBERED:
            self[code] = value
        return value


def invisible(char: str) -> bool:
    """Whether a character is a control, a format mark, a surrogate, private or a broken byte."""
    return unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs") or char == "\ufffd"


def punctuation(char: str) -> bool:
    """Whether a character is punctuation as BERT has it: Unicode's, and every ASCII symbol."""
    return unicodedata.category(char)[0] == "P" or (char.isascii() and not char.isalnum())


def spaced(char: str) -> str:
    """What the basic split makes of one character: nothing, a space, a word of its own, itself."""
    if char in "\t\n\r" or unicodedata.category(char)[0] == "Z":
        return " "
    if invisible(char):
        return ""
    # '≠' is a symbol, but without its stroke it is the punctuation '='
    alone = any(map(punctuation, unicodedata.normalize("NFD", char)))
    alone = alone or any(low <= ord(char) <= high for low, high in IDEOGRAPHS)
    return f" {char} " if alone else char


SPACED = Characters(spaced)


def split_words(text: str) -> list[str]:
    """The words of a text, with their case and accents: punctuation and ideographs stand alone."""
    return text.translate(SPACED).split()


def fold(word: str) -> str:
    """The word in lower case and without accents, as BERT's uncased vocabularies write it."""
    if word.isascii():
        return word.lower()
    marks_apart = unicodedata.normalize("NFD", word)
    bare = "".join(char for char in marks_apart if unicodedata.category(char) != "Mn")
    # str.lower alone would turn a final Σ into ς
    return bare.replace("Σ", "σ").lower()
