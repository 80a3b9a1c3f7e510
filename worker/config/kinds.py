"""What a key of the configuration may be: its type, its range, and how a text is read as one."""

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import Any, get_args

from worker.config.secret import Secret

Scalar = str | int | float | bool | None

INTEGER = re.compile(r"[-+]?[0-9]{1,300}")
NUMBER = re.compile(
    r"[-+]?(?:[0-9]++\.?[0-9]*+|\.[0-9]+)(?:[eE][-+]?[0-9]{1,4})?|[-+]?\.inf|\.nan", re.IGNORECASE
)
TOPIC = re.compile(r"[a-zA-Z0-9._-]{1,249}")
ADDRESS = re.compile(r"(?:[a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})")

NAMES = {
    str: "a text", int: "a whole number", float: "a number", bool: "true or false",
    Path: "a path", Secret: "a secret",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    """Which values a key allows, in words and as a test."""

    says: str
    test: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Kind:
    """The type of a key, and whether it may be null."""

    base: type
    optional: bool

    @classmethod
    def of(cls, hint: object) -> "Kind":
        """The kind behind a type hint such as `int | None`."""
        if isinstance(hint, type):
            return cls(hint, optional=False)
        [base] = [part for part in get_args(hint) if part is not NoneType]
        return cls(base, optional=True)

    def read(self, value: Scalar) -> Any:
        """The value as one of this kind; ValueError, with what was expected, if it is none."""
        if value is None and self.optional:
            return None
        if self.base is float and type(value) is int:
            value = float(value) if abs(value) < 2**53 else math.inf
        if self.base in (Path, Secret) and isinstance(value, str):
            return self.base(value) if value else None
        if type(value) is not self.base:
            raise ValueError(self._expected(value))
        return value

    def parse(self, text: str) -> Any:
        """The value that an environment variable of this text means."""
        if self.optional and text in ("", "null"):
            return None
        return self.read(text if self.base in (str, Path, Secret) else scalar(text))

    def _expected(self, value: Scalar) -> str:
        quotes = ": put it in quotes" if self.base is str and value is not None else ""
        return NAMES[self.base] + quotes + (" or null" if self.optional and not quotes else "")


def scalar(text: str) -> Scalar:
    """A plain scalar as YAML 1.2 reads it: no and off are texts, 010 is ten, 1e-3 is a number."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE"):
        return True
    if text in ("false", "False", "FALSE"):
        return False
    if INTEGER.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def between(low: float, high: float) -> Rule:
    """Numbers from low to high, both included."""
    return Rule(f"a number from {low:g} to {high:g}", lambda x: low <= x <= high)


def counted(low: int, high: int) -> Rule:
    """Whole numbers from low to high, both included."""
    return Rule(f"a whole number from {low} to {high}", lambda x: low <= x <= high)


def one_of(*words: str) -> Rule:
    """One of a few words."""
    return Rule("one of " + ", ".join(words), lambda x: x in words)


def is_line(text: object) -> bool:
    """Whether a text or a path is not empty and fits one line that can be printed."""
    said = str(text)
    return bool(said.strip()) and said.isprintable()


def is_topic(name: str) -> bool:
    """Whether Kafka would take this for the name of a topic."""
    return bool(TOPIC.fullmatch(name)) and name not in (".", "..")


def is_servers(text: str) -> bool:
    """Whether this is a list of addresses of brokers."""
    found = [ADDRESS.fullmatch(part.strip()) for part in text.split(",")]
    return all(match is not None and 0 < int(match[1]) < 65536 for match in found)


ANY = Rule("true or false", lambda _: True)
LINE = Rule("a text on one line", is_line)
FILE = Rule("the path of a file", is_line)
FOLDER = Rule("the path of a folder", is_line)
SECRET = Rule("a secret", lambda x: bool(x.reveal()))
TOPIC_NAME = Rule("a name of 1 to 249 letters, digits, dots, _ or -", is_topic)
SERVERS = Rule("host:port, or several with commas between", is_servers)
RATE = Rule("a number above 0 and below 1", lambda x: 0 < x < 1)
THRESHOLD = Rule("a number above 0 and at most 1", lambda x: 0 < x <= 1)
