"""Text in lines as wide as a terminal, on which some letters take two columns and some none."""

from unicodedata import category, east_asian_width

WIDEST = 2
WIDE = ("W", "F")
MARKS = ("Mn", "Me")  # they stand on the letter before them


def wrapped(text: str, width: int) -> list[str]:
    """The words of a text in lines of at most so many columns; a longer word is broken."""
    lines, line, used = list[str](), "", 0
    for word in text.split():
        size, room = columns(word), width - used - 1
        if line and (size <= room or (size > width and room >= WIDEST)):
            line, used = f"{line} ", used + 1
        elif line:
            lines.append(line)
            line, used = "", 0
        for letter in word:
            if used + columns(letter) > width:
                lines.append(line)
                line, used = "", 0
            line, used = line + letter, used + columns(letter)
    return [*lines, line]


def columns(text: str) -> int:
    """How many columns a text takes on a terminal."""
    return len(text) if text.isascii() else sum(map(_columns, text))


def _columns(letter: str) -> int:
    if east_asian_width(letter) in WIDE:
        return WIDEST
    return 0 if category(letter) in MARKS else 1
