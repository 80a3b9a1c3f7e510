"""Posts and titles as they can be drawn: cut between characters, and no glyph that is missing."""

import unicodedata
from collections.abc import Container, Iterator

REGIONAL_A = "\U0001f1e6"
JOINER = "\u200d"
ELLIPSIS = "…"
NAMES = {"HANGUL": "Korean", "HIRAGANA": "Japanese", "KATAKANA": "Japanese", "CJK": "Chinese"}
MARKS = "、。・「」『』〜！？，．：；（）【】"  # between the letters of a script that is named
RIGHT_TO_LEFT = ("R", "AL")


def clusters(text: str) -> list[str]:
    """What a reader takes for one character each: marks, joined emoji and flags stay whole."""
    found: list[str] = []
    for character in text:
        if found and _belongs(character, found[-1]):
            found[-1] += character
        else:
            found.append(character)
    return found


def width(text: str) -> int:
    """How many columns a text takes: two for a wide character, none for a mark."""
    return sum(_columns(character) for character in text)


def wrapped(text: str, columns: int, lines: int) -> list[str]:
    """The text in at most so many lines; a word is broken only if it is longer than a line."""
    made = [""]
    for word in text.split():
        for piece in _pieces(word, columns):
            apart = " " if made[-1] and piece.start else ""
            if width(made[-1] + apart + piece.text) > columns:
                made.append(piece.text)
            else:
                made[-1] += apart + piece.text
    return made if len(made) <= lines else [*made[: lines - 1], _short(made[lines - 1], columns)]


def drawable(text: str, glyphs: Container[int], right_to_left: bool = True) -> str:
    """The text with what no font can draw named in its place, as ‹Japanese› or ‹tree›.

    Without `right_to_left` scripts that are read so are named as well, not set the wrong way.
    """
    japanese = any(_script(character) == "Japanese" for character in text)
    kept: list[str] = []
    for cluster in clusters(" ".join(text.split())):
        first = next((c for c in cluster if _columns(c)), "")
        if not first:
            continue  # nothing of it is seen
        named = _flags(cluster) if _flag(cluster[0]) else _name(first, japanese)
        turned = unicodedata.bidirectional(first) in RIGHT_TO_LEFT and not right_to_left
        if not turned and all(ord(c) in glyphs for c in cluster if _columns(c)):
            kept.append("".join(c for c in cluster if ord(c) in glyphs))
        elif (name := f"‹{named}›") != _last(kept) and first not in MARKS:
            kept.append(name)
    return " ".join("".join(kept).split())


class _Piece:
    """A part of a word, and whether the word begins with it."""

    __slots__ = ("start", "text")

    def __init__(self, text: str, start: bool) -> None:
        self.text, self.start = text, start


def _pieces(word: str, columns: int) -> Iterator[_Piece]:
    piece, start = "", True
    for cluster in clusters(word):
        if piece and width(piece + cluster) > columns:
            yield _Piece(piece, start)
            piece, start = "", False
        piece += cluster
    yield _Piece(piece, start)


def _short(line: str, columns: int) -> str:
    kept = clusters(line)
    while kept and width("".join(kept)) >= columns:
        kept.pop()
    return "".join(kept).rstrip() + ELLIPSIS


def _last(kept: list[str]) -> str:
    """What stands last but for a space: a name that the next character need not repeat."""
    return next((part for part in reversed(kept) if part != " "), "")


def _belongs(character: str, cluster: str) -> bool:
    if unicodedata.category(character) == "Mc" or not _columns(character):
        return True
    if cluster.endswith(JOINER) or _tone(character):
        return True
    return _flag(character) and _flag(cluster[0]) and len(cluster) == 1


def _columns(character: str) -> int:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _tone(character: str) -> bool:
    return "\U0001f3fb" <= character <= "\U0001f3ff"


def _flag(character: str) -> bool:
    return REGIONAL_A <= character <= "\U0001f1ff"


def _flags(cluster: str) -> str:
    """The letters that a flag is written with: Canada's is CA."""
    return "flag " + "".join(chr(ord(c) - ord(REGIONAL_A) + ord("A")) for c in cluster if _flag(c))


def _name(character: str, japanese: bool) -> str:
    if unicodedata.category(character)[:1] not in "LM":
        return unicodedata.name(character, "unknown").lower()
    script = _script(character)
    return "Japanese" if japanese and script == "Chinese" else script


def _script(character: str) -> str:
    first = unicodedata.name(character, "unknown").replace("-", " ").split()[0]
    return NAMES.get(first, first.title())
