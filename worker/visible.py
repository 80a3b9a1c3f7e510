"""Text of strangers where people see it: nothing that would steer a terminal or turn a line."""

import base64
import json
from collections.abc import Callable
from typing import Any
from unicodedata import category

SPACE = "Zs"  # spaces of any width: not printable for Python, yet they steer nothing


def one_line(text: str) -> str:
    """A text to be read, in one line: what cannot be seen is left out."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """The text without control, formatting and other characters that cannot be seen."""
    return text if text.isprintable() else "".join(filter(str.isprintable, text))


def cut(text: str, width: int) -> str:
    """The text, cut to a width with a sign that it was."""
    return text if len(text) <= width else text[: width - 1] + "…"


def escaped(text: str) -> str:
    """A text to be told, in one line: what cannot be seen stands as an escape, as in Python."""
    return _replaced(" ".join(text.splitlines()), lambda char: repr(char)[1:-1])


def escaped_json(line: str) -> str:
    """A line of JSON that means the same: what cannot be seen stands as an escape."""
    return _replaced(line, lambda char: json.dumps(char)[1:-1])


def bytes_in_json(raw: bytes | None) -> Any:
    """Bytes as JSON: text where they are UTF-8, else base64."""
    try:
        return None if raw is None else raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw or b"").decode()}


def bytes_of_json(told: Any) -> bytes:
    """What `bytes_in_json` told; ValueError, TypeError or AttributeError if it did not."""
    if isinstance(told, dict):
        return base64.b64decode(told["base64"], validate=True)
    return bytes(told.encode())


def _replaced(text: str, escape: Callable[[str], str]) -> str:
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or category(char) == SPACE else escape(char) for char in text
    )
