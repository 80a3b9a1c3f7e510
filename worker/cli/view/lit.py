"""The words of a text, lit by what each of them adds: in a line of words, or where they stand."""

import re
from collections.abc import Sequence

import click

from worker.visible import printable

LAMPS = ((94, 231), (136, 16), (178, 16), (220, 16))  # background and text, from weak to strong
GREY = 244
FAINT = 0.1
NUMBERED = 8
VISIBLE = 0.005
WORD = re.compile(r"(#?)(\w+)")


def lit(pairs: Sequence[tuple[str, float]], colour: bool) -> str:
    """One line of words: on lamps, or without colour with the largest parts in brackets.

    The strongest word burns brightest, a word that takes from the score is grey. The entry ""
    (what no word accounts for) is not shown, nor is any character that would steer a terminal.
    """
    shown = [(seen, part) for word, part in pairs if (seen := printable(word))]
    return " ".join(painted(shown) if colour else numbered(shown))


def painted(pairs: Sequence[tuple[str, float]]) -> list[str]:
    """The words in colours that can be read on a dark and on a light ground."""
    top = max((part for _, part in pairs), default=0.0)
    bottom = min((part for _, part in pairs), default=0.0)
    strongest = max(top, -bottom)
    return [paint(word, part / strongest if strongest else 0.0) for word, part in pairs]


def paint(word: str, strength: float) -> str:
    """One word by its strength, from -1 to 1."""
    if abs(strength) < FAINT:
        return word
    if strength < 0:
        return click.style(word, fg=GREY)
    lamp = min(int(strength * len(LAMPS)), len(LAMPS) - 1)
    background, text = LAMPS[lamp]
    return click.style(word, fg=text, bg=background, bold=lamp == len(LAMPS) - 1 or None)


def numbered(pairs: Sequence[tuple[str, float]]) -> list[str]:
    """The words, the few with the largest parts followed by it: hurricane[0.21]."""
    sizes = [abs(part) for _, part in pairs]
    ranked = sorted(range(len(pairs)), key=lambda i: -sizes[i])
    chosen = {i for i in ranked[:NUMBERED] if sizes[i] >= max(VISIBLE, FAINT * sizes[ranked[0]])}
    return [f"{word}[{part:.2f}]" if i in chosen else word for i, (word, part) in enumerate(pairs)]


def lit_text(text: str, why: Sequence[tuple[str, float]], colour: bool) -> str:
    """A text with those words lit, or numbered without colour, that made its score."""
    parts = {word.lower(): part for word, part in why if word}
    strongest = max((abs(part) for part in parts.values()), default=0.0)
    if not strongest:
        return text
    longest_first = map(re.escape, sorted(parts, key=len, reverse=True))
    inside = re.compile("|".join(longest_first), re.IGNORECASE)

    def light(word: str) -> str:
        part = parts.get(word.lower(), 0.0)
        if colour:
            return paint(word, part / strongest)
        return f"{word}[{part:.2f}]" if abs(part) >= max(VISIBLE, FAINT * strongest) else word

    def one(found: re.Match[str]) -> str:
        sign, word = found.groups()
        if word.lower() in parts:
            return sign + light(word)
        if not sign:
            return word
        return sign + inside.sub(lambda piece: light(piece[0]), word)

    return WORD.sub(one, text)
