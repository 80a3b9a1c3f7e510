"""BERT's basic tokenization: split a text into words, for all vocabularies."""

import unicodedata

from encoder.support.letters import TranslationTable

IDEOGRAPHS = (
    (0x3400, 0x4DBF),
    (0x4E00, 0x9FFF),
    (0xF900, 0xFAFF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B81F),
    (0x2B920, 0x2CEAF),
    (0x2F800, 0x2FA1F),
)


def is_invisible(char: str) -> bool:
    """Whether a character is a control, format, private-use or surrogate character, or U+FFFD."""
    return unicodedata.category(char) in ("Cc", "Cf", "Co", "Cs") or char == "\ufffd"


def is_punctuation(char: str) -> bool:
    """Whether BERT treats a character as punctuation: Unicode punctuation and ASCII symbols."""
    return unicodedata.category(char)[0] == "P" or (char.isascii() and not char.isalnum())


def is_ideograph(char: str) -> bool:
    """Whether BERT treats a character as a separate word."""
    return char >= "\u3400" and any(low <= ord(char) <= high for low, high in IDEOGRAPHS)


def separate(char: str) -> str:
    """Delete a character, replace it by a space, put spaces around it, or leave it unchanged."""
    if char in "\t\n\r" or unicodedata.category(char)[0] == "Z":
        return " "
    if is_invisible(char):
        return ""
    # '≠' is a symbol, but decomposes to the punctuation '='.
    alone = is_ideograph(char) or any(map(is_punctuation, unicodedata.normalize("NFD", char)))
    return f" {char} " if alone else char


SEPARATE = TranslationTable(separate)


def split_words(text: str) -> list[str]:
    """Split a text into words, punctuation and ideographs; case and accents are preserved."""
    if text.isascii() and text.isalnum():
        return [text]
    return text.translate(SEPARATE).split()
