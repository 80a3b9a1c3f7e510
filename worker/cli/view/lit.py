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
    words = [(seen, part) for word, part in pairs if (seen := printable(word))]
    sizes = [abs(part) for _, part in words]
    ranked = sorted(range(len(words)), key=lambda i: -sizes[i])
    chosen = set(ranked if colour else ranked[:NUMBERED])
    top = max(sizes, default=0.0)
    lights = (_lit(*pair, top, colour) if i in chosen else pair[0] for i, pair in enumerate(words))
    return " ".join(lights)


def lit_text(text: str, why: Sequence[tuple[str, float]], colour: bool) -> str:
    """A text with those words lit, or numbered without colour, that made its score."""
    parts = {word.lower(): part for word, part in why if word}
    top = max(map(abs, parts.values()), default=0.0)
    if not top:
        return text
    longest_first = map(re.escape, sorted(parts, key=len, reverse=True))
    inside = re.compile("|".join(longest_first), re.IGNORECASE)

    def light(word: str) -> str:
        return _lit(word, parts.get(word.lower(), 0.0), top, colour)

    def one(found: re.Match[str]) -> str:
        sign, word = found.groups()
        if word.lower() in parts:
            return sign + light(word)
        return sign + inside.sub(lambda piece: light(piece[0]), word) if sign else word

    return WORD.sub(one, text)


def _lit(word: str, part: float, top: float, colour: bool) -> str:
    """One word by its part of a score whose largest part is this."""
    if abs(part) < FAINT * top or not part:
        return word
    if not colour:
        return f"{word}[{part:.2f}]" if abs(part) >= VISIBLE else word
    if part < 0:
        return click.style(word, fg=GREY)
    lamp = min(int(part / top * len(LAMPS)), len(LAMPS) - 1)
    background, text = LAMPS[lamp]  # they can be read on a dark and on a light ground
    return click.style(word, fg=text, bg=background, bold=lamp == len(LAMPS) - 1 or None)
