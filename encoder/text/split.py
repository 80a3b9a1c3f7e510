"""How text falls into words: BERT's basic split, written once for both vocabularies."""

import unicodedata

from encoder.support.letters import Characters

IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def invisible(char: str) -> bool:
    """Whether a character is a control, a format mark, a surrogate, private or a broken byte."""
    return unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs") or char == "\ufffd"


def punctuation(char: str) -> bool:
    """Whether a character is punctuation as BERT has it: Unicode's, and every ASCII symbol."""
    return unicodedata.category(char)[0] == "P" or (char.isascii() and not char.isalnum())


def ideograph(char: str) -> bool:
    """Whether a character is one of those that BERT takes for a word of its own."""
    return char >= "\u3400" and any(low <= ord(char) <= high for low, high in IDEOGRAPHS)


def spaced(char: str) -> str:
    """What the basic split makes of one character: nothing, a space, a word of its own, itself."""
    if char in "\t\n\r" or unicodedata.category(char)[0] == "Z":
        return " "
    if invisible(char):
        return ""
    # '≠' is a symbol, but without its stroke it is the punctuation '='
    alone = ideograph(char) or any(map(punctuation, unicodedata.normalize("NFD", char)))
    return f" {char} " if alone else char


SPACED = Characters(spaced)


def split_words(text: str) -> list[str]:
    """The words of a text, with their case and accents: punctuation and ideographs stand alone."""
    return text.translate(SPACED).split()
