"""Seed records: a record of the control topic → the article that posts are compared with."""

import hashlib
import json
import re
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from encoder.errors import InputError
from encoder.support.letters import most_marks
from encoder.text.clean import ARTICLE_CHARS
from worker.config import DEFAULT_LIMITS, Limits

KEY_BYTES = 256
LIMITS = {"text": ARTICLE_CHARS, "title": 1024, "event": 240, "url": 2048}  # characters
EVENT_BYTES = 240
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


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
    if value is None:
        return None
    try:
        if len(value) > limits.article_bytes:
            told = f"{len(value)} bytes, {limits.article_bytes} are allowed; shorten it"
            raise InputError(f"limits.article_bytes: {told}")
        seed = _seed(_id(key), _json(value))
        _unmarked(seed, limits.marks)
        return seed
    except InputError as error:
        shown = "" if key is None else key.decode("utf-8", "backslashreplace")
        return RefusedSeed(shown[:KEY_BYTES], str(error))


def digest(value: Any) -> str:
    """The SHA-256 of a value as JSON without spaces or escapes, in hex."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _id(key: bytes | None) -> str:
    if not key:
        raise InputError("key: missing; a seed's id is the key of its record")
    if len(key) > KEY_BYTES:
        raise InputError(f"key: {len(key)} bytes, {KEY_BYTES} are allowed; use a shorter id")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise InputError("key: is not UTF-8; a seed's id is text") from None


def _json(value: bytes) -> dict[str, Any]:
    if not value:
        raise InputError("value: empty; a null value deletes a seed")
    try:
        found = json.loads(value.decode(), object_pairs_hook=_once_each)
    except UnicodeDecodeError as error:
        raise InputError(f"value: is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise InputError(f"value: bad JSON ({error.msg} at character {error.pos})") from None
    except RecursionError:
        raise InputError("value: bad JSON (nested too deep)") from None
    except ValueError as error:
        raise InputError(f"value: bad JSON ({error})") from None
    if not isinstance(found, dict):
        raise InputError(f"value: {_kind(found)}, expected an object with a text")
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a key that stands twice says two things, and readers differ in which they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"key {ascii(twice)[:60]} stands twice")
    return found


def _seed(name: str, given: dict[str, Any]) -> Seed:
    text = _string(given, "text")
    if not text.strip():
        raise InputError("text: missing or empty; give the article's text")
    return Seed(
        name,
        _string(given, "title"),
        text,
        _event(given) or name,
        _string(given, "url") or None,
        _threshold(given.get("threshold")),
        _expiry(given.get("expires_at")),
        _paused(given.get("paused")),
    )


def _unmarked(seed: Seed, most: int) -> None:
    """Refuse an article that heaps marks upon one of its letters."""
    for name, text in (("title", seed.title), ("text", seed.text)):
        if (marks := most_marks(text)) > most:
            told = f"{name}: a letter has {marks} combining marks, {most} are allowed"
            raise InputError(f"limits.marks: {told}")


def _event(given: dict[str, Any]) -> str:
    event = _string(given, "event")
    if (size := len(event.encode())) > EVENT_BYTES:
        raise InputError(f"event: {size} bytes, {EVENT_BYTES} are allowed; shorten it")
    return event


def _paused(value: Any) -> bool:
    if value is not None and not isinstance(value, bool):
        raise InputError(f"paused: {_kind(value)}, expected true or false")
    return bool(value)


def _string(given: dict[str, Any], key: str) -> str:
    """The string under a key; "" where there is none, or null."""
    value = given.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{key}: {_kind(value)}, expected a string")
    if len(value) > LIMITS[key]:
        raise InputError(f"{key}: {len(value)} characters, {LIMITS[key]} are allowed; shorten it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{key}: holds a lone surrogate, which is no character") from None
    return value


def _threshold(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"threshold: {_kind(value)}, expected a number above 0, at most 1")
    if not 0 < value <= 1:
        shown = f"{value:g}" if isinstance(value, float) else "a whole number"
        raise InputError(f"threshold: {shown} is not above 0 and at most 1")
    return float(value)


def _expiry(value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > 64 or not RFC_3339.fullmatch(value):
        shown = ascii(value)[:40] if isinstance(value, str) else _kind(value)
        _not_a_time(shown)
    try:
        moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
        return (moment - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        _not_a_time(ascii(value))


def _not_a_time(shown: str) -> NoReturn:
    raise InputError(
        f"expires_at: {shown} is no RFC 3339 time, as 2026-01-31T12:00:00Z, of the years 1 to 9999"
    )


def _kind(value: Any) -> str:
    """What a JSON value is, in the words of JSON."""
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "an array" if isinstance(value, list) else "an object")
