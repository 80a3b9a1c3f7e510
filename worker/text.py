"""Untrusted text, made safe for terminals and single lines."""

import base64
import json
from collections.abc import Callable
from typing import Any
from unicodedata import category

SPACE_CATEGORY = "Zs"  # Python calls wide spaces unprintable; they are harmless.


def one_line(text: str) -> str:
    """A text on one line, without invisible characters."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """A text without control, formatting and other invisible characters."""
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def shorten(text: str, width: int) -> str:
    """A text of at most this many characters, with an ellipsis if it is cut."""
    return text if len(text) <= width else text[: width - 1] + "…"


def plural(count: int, noun: str) -> str:
    """Such as 1 post, or 1,200 posts."""
    ending = "" if count == 1 else "es" if noun.endswith("ch") else "s"
    return f"{count:,} {noun}{ending}"


def escape_invisible(text: str) -> str:
    """A text on one line, with invisible characters as Python escapes."""
    return _replace_invisible(" ".join(text.splitlines()), lambda char: repr(char)[1:-1])


def escape_json(line: str) -> str:
    """Invisible characters become JSON escapes."""
    return _replace_invisible(line, lambda char: json.dumps(char)[1:-1])


def bytes_to_json(raw: bytes | None) -> Any:
    """Text where they are UTF-8, else base64."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw or b"").decode()}


def bytes_from_json(text: Any) -> bytes:
    """The inverse of `bytes_to_json`; raises ValueError, TypeError or AttributeError."""
    if isinstance(text, dict):
        return base64.b64decode(text["base64"], validate=True)
    return bytes(text.encode())


def _replace_invisible(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or category(char) == SPACE_CATEGORY else escape(char)
        for char in text
    )
