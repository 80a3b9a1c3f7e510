"""Texts to be embedded, out of the lines of a file: plain, or JSON with an id and a title."""

import json
from dataclasses import dataclass

from worker.files.read import too_long

FORMATS = ("auto", "lines", "jsonl")


@dataclass(frozen=True, slots=True)
class GivenText:
    """One text of the input, with the id and the title that came with it."""

    text: str
    title: str = ""
    id: object = None


def format_of(first: bytes) -> str:
    """What an input holds, by its first line: JSON lines where that begins with {."""
    return "jsonl" if first.lstrip().startswith(b"{") else "lines"


def read_given(line: bytes, form: str, field: str) -> GivenText:
    """The text in a line; a ValueError says why there is none."""
    if refused := too_long(line):
        raise ValueError(refused)
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"is not UTF-8 at byte {error.start + 1}; convert the file") from None
    return GivenText(text) if form == "lines" else _from_json(text, field)


def _from_json(line: str, field: str) -> GivenText:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("is no JSON; mend it, or use --format lines for plain text") from None
    if not isinstance(value, dict):
        raise ValueError('is no JSON object; write {"text": …}, or use --format lines')
    text, title = value.get(field), value.get("title") or ""
    if not isinstance(text, str):
        raise ValueError(f"has no text under {field!r}; name its key with --field")
    if not isinstance(title, str):
        raise ValueError("has a 'title' that is no text; write it as a string")
    return GivenText(text, title, value.get("id"))
