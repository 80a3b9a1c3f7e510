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
TOPIC = re.compile(r"(?!\.{1,2}$)[a-zA-Z0-9._-]{1,249}")
ADDRESS = re.compile(r"(?:[a-zA-Z0-9._-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Rule:
    """Which values a key allows, in words and as a test."""

    says: str
    test: Callable[[Any], bool]


@dataclass(frozen=True, slots=True)
class Key:
    """A key of a section: its type, whether it may be null, its rule and its default."""

    kind: type
    optional: bool
    rule: Rule
    default: Any

    @classmethod
    def of(cls, hint: object, default: object) -> "Key":
        """The key behind a hint such as `Annotated[int | None, counts(1, 9)]`."""
        kinds, rule = get_args(hint)
        [kind] = [kind for kind in get_args(kinds) or (kinds,) if kind is not NoneType]
        return cls(kind, kind is not kinds, rule, default)

    @property
    def wanted(self) -> str:
        """What it may be, in words."""
        return self.rule.says + (", or null" if self.optional else "")

    def read(self, value: Scalar) -> Any:
        """The value as one of this key; ValueError, with what was expected, if it is none."""
        made = self._typed(value)
        if made is not None and not self.rule.test(made):
            raise ValueError(self.wanted)
        return made

    def parse(self, text: str) -> Any:
        """The value that an environment variable of this text means."""
        if self.optional and text in ("", "null"):
            return None
        return self.read(text if self.kind in (str, *FROM_TEXT) else scalar(text))

    def _typed(self, value: Scalar) -> Any:
        if value is None and self.optional:
            return None
        if self.kind is float and type(value) is int:
            return float(value) if abs(value) < 2**53 else math.inf
        if self.kind in FROM_TEXT and isinstance(value, str):
            return FROM_TEXT[self.kind](value) if value else None
        if type(value) is not self.kind:
            quotes = ", in quotes" if self.kind is str and value is not None else ""
            raise ValueError(self.wanted + quotes)
        return value

    def refusal(self, value: object, wanted: str = "") -> str:
        """What is said to whoever gave a value that cannot be."""
        said = "the value" if self.kind is Secret else quoted(value)
        usual = "" if self.default is None else f", or leave it out for {quoted(self.default)}"
        return f"{said} is refused; give {wanted or self.wanted}{usual}"


def _at_home(path: str) -> Path:
    """The path; one that begins with ~ as the folder that this means."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise ValueError("a path; there is no such user") from error


FROM_TEXT: dict[type, Callable[[str], Any]] = {Path: _at_home, Secret: Secret}


def quoted(value: object) -> str:
    """A value as an error names it: short, and without what stands before an @."""
    said = repr(str(value) if isinstance(value, Path) else value)
    if "@" in said:
        said = f"'***{said[said.rindex('@') :]}"
    return said if len(said) <= 80 else said[:77] + "…"


def scalar(text: str) -> Scalar:
    """A plain scalar as YAML 1.2 reads it: no and off are texts, 010 is ten, 1e-3 is a number."""
    if text in ("", "~", "null", "Null", "NULL"):
        return None
    if text in ("true", "True", "TRUE", "false", "False", "FALSE"):
        return text.lower() == "true"
    if INTEGER.fullmatch(text):
        return int(text)
    if NUMBER.fullmatch(text):
        return float(text.lower().replace(".inf", "inf").replace(".nan", "nan"))
    return text


def between(low: float, high: float) -> Rule:
    """Numbers from low to high, both included."""
    return Rule(f"a number from {low:g} to {high:g}", lambda x: low <= x <= high)


def counts(low: int, high: int) -> Rule:
    """Whole numbers from low to high, both included."""
    return Rule(f"a whole number from {low} to {high}", lambda x: low <= x <= high)


def one_of(*words: str) -> Rule:
    """One of a few words."""
    return Rule("one of " + ", ".join(words), lambda x: x in words)


def is_line(text: object) -> bool:
    """Whether a text or a path is not empty and fits one line that can be printed."""
    said = str(text)
    return bool(said.strip()) and said.isprintable()


def is_servers(text: str) -> bool:
    """Whether this is a list of addresses of brokers."""
    found = [ADDRESS.fullmatch(part.strip()) for part in text.split(",")]
    return all(match is not None and 0 < int(match[1]) < 65536 for match in found)


ANY = Rule("true or false", lambda _: True)
LINE = Rule("a text on one line", is_line)
FILE = Rule("the path of a file", is_line)
SECRET = Rule("a secret", lambda x: bool(x.reveal()))
TOPIC_NAME = Rule(
    "a name of 1 to 249 letters, digits, dots, _ or -", lambda x: bool(TOPIC.fullmatch(x))
)
SERVERS = Rule("host:port, or several with commas between", is_servers)
RATE = Rule("a number above 0 and below 1", lambda x: 0 < x < 1)
THRESHOLD = Rule("a number above 0 and at most 1", lambda x: 0 < x <= 1)
