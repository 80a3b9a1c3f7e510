"""Seed records: a record of the control topic → the article that posts are compared with."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from encoder.errors import InputError
from encoder.support.letters import most_marks
from encoder.text.clean import ARTICLE_CHARS
from worker.config import DEFAULT_LIMITS, Limits
from worker.seeds.values import (
    KEY_BYTES,
    event_in,
    flag_in,
    id_in,
    milliseconds_in,
    object_in,
    string_in,
    threshold_in,
)

PREFIX = "profile|"
TAKEN = f"key: {PREFIX} begins the ids of profiles; give the seed another id"
TITLE_CHARS = 1024
URL_CHARS = 2048
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seed:
    """An article that posts are compared with."""

    id: str
    title: str
    text: str
    event: str
    url: str | None = None
    threshold: float | None = None
    expires_at: int | None = None  # milliseconds
    paused: bool = False  # it matches nothing for now
    version: str = field(init=False)  # 12 hex digits
    content: str = field(init=False)  # all 64 of them, which no two articles share

    def __post_init__(self) -> None:
        object.__setattr__(self, "content", digest([self.title, self.text]))
        object.__setattr__(self, "version", self.content[:12])


@dataclass(frozen=True, slots=True, order=True)
class RefusedSeed:
    """A seed whose latest record is invalid, and why: it matches nothing."""

    id: str
    reason: str


def read_seed(
    key: bytes | None, value: bytes | None, limits: Limits = DEFAULT_LIMITS
) -> Seed | RefusedSeed | None:
    """The seed in a control record, or why it is refused; None where the record deletes it."""
    return admitted(key, value, limits, _seed)


def admitted(
    key: bytes | None,
    value: bytes | None,
    limits: Limits,
    make: Callable[[str, dict[str, Any], Limits], T],
) -> T | RefusedSeed | None:
    """What is made of a record's id and object, or why it is refused; None where it deletes."""
    if value is None:
        return None
    try:
        if len(value) > limits.article_bytes:
            told = f"{len(value)} bytes, {limits.article_bytes} are allowed; shorten it"
            raise InputError(f"limits.article_bytes: {told}")
        return make(id_in(key), object_in(value), limits)
    except InputError as error:
        shown = "" if key is None else key.decode("utf-8", "backslashreplace")
        return RefusedSeed(shown[:KEY_BYTES], str(error))


def digest(value: Any) -> str:
    """The SHA-256 of a value as JSON without spaces or escapes, in hex."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _seed(name: str, given: dict[str, Any], limits: Limits) -> Seed:
    if name.startswith(PREFIX):
        raise InputError(TAKEN)
    text = string_in(given, "text", ARTICLE_CHARS)
    if not text.strip():
        raise InputError("text: missing or empty; give the article's text")
    seed = Seed(
        name,
        string_in(given, "title", TITLE_CHARS),
        text,
        event_in(given) or name,
        string_in(given, "url", URL_CHARS) or None,
        threshold_in(given.get("threshold")),
        milliseconds_in(given, "expires_at"),
        flag_in(given, "paused"),
    )
    _unmarked(seed, limits.marks)
    return seed


def _unmarked(seed: Seed, most: int) -> None:
    """Refuse an article that heaps marks upon one of its letters."""
    for name, text in (("title", seed.title), ("text", seed.text)):
        if (marks := most_marks(text)) > most:
            told = f"{name}: a letter has {marks} combining marks, {most} are allowed"
            raise InputError(f"limits.marks: {told}")
