"""The rules of configuration keys: type, range, and conversion from text."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from worker.config.secret import Secret

NAME = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
ADDRESS = re.compile(r"(?:[a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})")
LANGUAGE = re.compile(r"[a-zA-Z]{2,8}(?:[-_][a-zA-Z0-9]{1,8}){0,3}")


@dataclass(frozen=True, slots=True)
class Rule:
    """The values that a key allows: in words, and as a test."""

    allowed: str
    test: Callable[[Any], bool]
    listed: bool = False  # whether a list may be given, which is one text with commas
    words: Mapping[str, Any] = field(default_factory=dict)  # that stand for values


@dataclass(frozen=True, slots=True)
class Key:
    kind: type
    optional: bool
    rule: Rule
    default: Any

    @classmethod
    def from_hint(cls, hint: object, default: object) -> "Key":
        """Reads a hint such as `Annotated[int | None, whole_number(1, 9)]`."""
        kinds, rule = get_args(hint)
        [kind] = [kind for kind in get_args(kinds) or (kinds,) if kind is not NoneType]
        return cls(kind, kind is not kinds, rule, default)

    @property
    def requirement(self) -> str:
        return self.rule.allowed + (", or null" if self.optional else "")

    def read(self, text: str | None) -> Any:
        """Raises ValueError if the text has the wrong type."""
        if text is None or (self.optional and text in ("", "null")):
            if not self.optional:
                raise ValueError("null")
            return None
        return self.rule.words[text] if text in self.rule.words else READERS[self.kind](text)

    def refusal(self, value: object) -> str:
        shown_value = "the value" if self.kind is Secret else quote(value)
        default = str(self.default).lower() if self.kind is bool else quote(self.default)
        usual = "" if self.default is None else f", or leave it out for {default}"
        return f"{shown_value} is refused; give {self.requirement}{usual}"


def _checked_number(text: str) -> str:
    if "_" in text or not text.isascii():
        raise ValueError("Python alone reads 1_000 as a number")
    return text


READERS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: lambda text: int(_checked_number(text)),
    float: lambda text: float(_checked_number(text)),
    bool: lambda text: bool(("false", "true").index(text.lower())),
    Path: lambda text: Path(text).expanduser(),
    Secret: Secret,
}


def quote(value: object) -> str:
    """Short, and without what precedes an @: it may be a password."""
    text = repr(str(value) if isinstance(value, Path) else value)
    if "@" in text:
        text = f"'***{text[text.rindex('@') :]}"
    return text if len(text) <= 80 else text[:77] + "…"


def number_between(low: float, high: float) -> Rule:
    return Rule(f"a number from {low:g} to {high:g}", lambda x: low <= x <= high)


def whole_number(low: int, high: int) -> Rule:
    return Rule(f"a whole number from {low} to {high}", lambda x: low <= x <= high)


def one_of(*words: str) -> Rule:
    return Rule("one of " + ", ".join(words), lambda x: x in words)


def is_one_line(text: object) -> bool:
    """Whether a text is not empty, and printable on one line."""
    line = str(text)
    return bool(line.strip()) and line.isprintable()


def are_servers(text: str) -> bool:
    addresses = [ADDRESS.fullmatch(part.strip()) for part in text.split(",")]
    return all(match is not None and 0 < int(match[1]) < 65536 for match in addresses)


def are_languages(text: str) -> bool:
    return all(LANGUAGE.fullmatch(part.strip()) for part in text.split(","))


def are_post_parts(text: str) -> bool:
    parts = [part.strip() for part in text.split(",")]
    return len(set(parts)) == len(parts) and set(parts) <= {"text", "alt", "card"}


ALL = "all"  # a number without an end, as a word
TRUE_OR_FALSE = Rule("true or false", lambda _: True)
LINE = Rule("a text on one line", is_one_line)
FILE_PATH = Rule("the path of a file", is_one_line)
SECRET = Rule("a secret", lambda x: bool(x.reveal()))
KAFKA_NAME = Rule(
    "a name of 1 to 249 letters, digits, dots, _ or -", lambda x: bool(NAME.fullmatch(x))
)
SERVERS = Rule("host:port, or several with commas between", are_servers)
LANGUAGES = Rule("a language such as en or pt-BR, or a list of them", are_languages, listed=True)
POST_PARTS = Rule("some of text, alt and card, as a list", are_post_parts, listed=True)
READ_FACTOR = Rule("a number of at least 1, or all", lambda x: x >= 1, words={ALL: inf})
RATE = Rule("a number above 0 and below 1", lambda x: 0 < x < 1)
THRESHOLD = Rule("a number above 0 and at most 1", lambda x: 0 < x <= 1)
