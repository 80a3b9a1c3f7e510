"""The fields of a control record, and the seed that it holds."""

import hashlib
import json
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeVar

from encoder.errors import InputError
from encoder.support.letters import marks_beyond
from encoder.text.clean import ARTICLE_CHARS
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.json_outline import MAX_DEPTH, json_outline, max_nesting, may_be_deep

MAX_KEY_BYTES = 256
MAX_EVENT_BYTES = 240
MAX_QUOTED = 10**6  # of whole numbers in a message; one may have thousands of digits
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def parse_id(key: bytes | None) -> str:
    if not key:
        raise InputError("key: missing; a seed's id is the key of its record")
    if len(key) > MAX_KEY_BYTES:
        raise InputError(f"key: {len(key)} bytes, {MAX_KEY_BYTES} are allowed; use a shorter id")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise InputError("key: is not UTF-8; a seed's id is text") from None


def parse_object(value: bytes) -> dict[str, Any]:
    if not value:
        raise InputError("value: empty; a null value deletes a seed")
    if may_be_deep(value) and max_nesting(json_outline(value)) > MAX_DEPTH:
        raise InputError("value: bad JSON (nested too deep)")
    try:
        content = json.loads(value.decode(), object_pairs_hook=_refuse_repeated_keys)
    except UnicodeDecodeError as error:
        raise InputError(f"value: is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise InputError(f"value: bad JSON ({error.msg} at character {error.pos})") from None
    except ValueError as error:  # of a long number Python names its own remedy
        is_long = "integer string conversion" in str(error)
        reason = (
            f"a number has more than {sys.get_int_max_str_digits()} digits" if is_long else error
        )
        raise InputError(f"value: bad JSON ({reason})") from None
    if not isinstance(content, dict):
        raise InputError(f"value: {json_type(content)}, expected an object with a text")
    return content


def _refuse_repeated_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Readers differ in which of two values they take."""
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"key {ascii(twice)[:60]} occurs twice")
    return content


def parse_event(values: dict[str, Any]) -> str:
    """Empty without one."""
    event = parse_string(values, "event", MAX_EVENT_BYTES)
    if (size := len(event.encode())) > MAX_EVENT_BYTES:
        raise InputError(f"event: {size} bytes, {MAX_EVENT_BYTES} are allowed; shorten it")
    return event


def parse_string(values: dict[str, Any], key: str, most: int) -> str:
    """Empty if missing or null."""
    value = values.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{key}: {json_type(value)}, expected a string")
    if len(value) > most:
        raise InputError(f"{key}: {len(value)} characters, {most} are allowed; shorten it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{key}: holds a lone surrogate, which is not a character") from None
    return value


def parse_flag(values: dict[str, Any], key: str) -> bool:
    value = values.get(key)
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{key}: {json_type(value)}, expected true or false")
    return bool(value)


def parse_threshold(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"threshold: {json_type(value)}, expected a number above 0, at most 1")
    if not 0 < value <= 1:
        is_long = isinstance(value, int) and abs(value) > MAX_QUOTED
        quote = "a whole number" if is_long else f"{value:g}"
        raise InputError(f"threshold: {quote} is not above 0 and at most 1")
    return float(value)


def parse_milliseconds(values: dict[str, Any], key: str) -> int | None:
    value = values.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > 64 or not RFC_3339.fullmatch(value):
        quote = ascii(value)[:40] if isinstance(value, str) else json_type(value)
        _refuse_time(key, quote)
    try:
        moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
        return (moment - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        _refuse_time(key, ascii(value))


def _refuse_time(key: str, quote: str) -> NoReturn:
    raise InputError(
        f"{key}: {quote} is not an RFC 3339 time, as 2026-01-31T12:00:00Z, of the years 1 to 9999"
    )


def json_type(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "an array" if isinstance(value, list) else "an object")


PROFILE_PREFIX = "profile|"
PREFIX_TAKEN = f"key: {PROFILE_PREFIX} begins the ids of profiles; give the seed another id"
MAX_TITLE_CHARS = 1024
MAX_URL_CHARS = 2048
COMPACT_JSON = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Seed:
    """An article, or one post, that posts are compared with."""

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
        object.__setattr__(self, "content", json_digest([self.title, self.text]))
        object.__setattr__(self, "version", self.content[:12])


@dataclass(frozen=True, slots=True, order=True)
class RefusedSeed:
    """Its latest record is invalid, so it matches nothing."""

    id: str
    reason: str


def parse_seed_record(
    key: bytes | None, value: bytes | None, limits: Limits = DEFAULT_LIMITS
) -> Seed | RefusedSeed | None:
    """Parses a seed; None for a deletion."""
    return parse_record(key, value, limits, _make_seed)


def parse_record(
    key: bytes | None,
    value: bytes | None,
    limits: Limits,
    make: Callable[[str, dict[str, Any], Limits], T],
) -> T | RefusedSeed | None:
    """Applies `make` to the id and the object of a record; None for a deletion."""
    if value is None:
        return None
    try:
        if len(value) > limits.article_bytes:
            fault = f"{len(value)} bytes, {limits.article_bytes} are allowed; shorten it"
            raise InputError(f"limits.article_bytes: {fault}")
        return make(parse_id(key), parse_object(value), limits)
    except InputError as error:
        name = "" if key is None else key.decode("utf-8", "backslashreplace")
        return RefusedSeed(name[:MAX_KEY_BYTES], str(error))


def json_digest(value: Any) -> str:
    """SHA-256, in hex, of JSON without spaces and escapes."""
    return hashlib.sha256(COMPACT_JSON.encode(value).encode()).hexdigest()


def _make_seed(name: str, values: dict[str, Any], limits: Limits) -> Seed:
    if name.startswith(PROFILE_PREFIX):
        raise InputError(PREFIX_TAKEN)
    text = parse_string(values, "text", ARTICLE_CHARS)
    if not text.strip():
        raise InputError("text: missing or empty; give the article's text")
    seed = Seed(
        name,
        parse_string(values, "title", MAX_TITLE_CHARS),
        text,
        parse_event(values) or name,
        parse_string(values, "url", MAX_URL_CHARS) or None,
        parse_threshold(values.get("threshold")),
        parse_milliseconds(values, "expires_at"),
        parse_flag(values, "paused"),
    )
    for key, content in (("title", seed.title), ("text", seed.text)):
        if marks := marks_beyond(content, limits.marks):
            fault = f"{key}: a letter has {marks} combining marks, {limits.marks} are allowed"
            raise InputError(f"limits.marks: {fault}")
    return seed
