"""The values in a control record: read one by one, or refused with a remedy."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn, TypeVar

from encoder.errors import InputError
from encoder.support.letters import most_marks
from encoder.text.clean import ARTICLE_CHARS
from worker.config.limits import DEFAULT_LIMITS, Limits

KEY_BYTES = 256
EVENT_BYTES = 240
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def id_in(key: bytes | None) -> str:
    if not key:
        raise InputError("key: missing; a seed's id is the key of its record")
    if len(key) > KEY_BYTES:
        raise InputError(f"key: {len(key)} bytes, {KEY_BYTES} are allowed; use a shorter id")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise InputError("key: is not UTF-8; a seed's id is text") from None


def object_in(value: bytes) -> dict[str, Any]:
    if not value:
        raise InputError("value: empty; a null value deletes a seed")
    try:
        content = json.loads(value.decode(), object_pairs_hook=_once_each)
    except UnicodeDecodeError as error:
        raise InputError(f"value: is not UTF-8 (byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise InputError(f"value: bad JSON ({error.msg} at character {error.pos})") from None
    except RecursionError:
        raise InputError("value: bad JSON (nested too deep)") from None
    except ValueError as error:
        raise InputError(f"value: bad JSON ({error})") from None
    if not isinstance(content, dict):
        raise InputError(f"value: {kind_of(content)}, expected an object with a text")
    return content


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object without repeated keys: readers differ in which value they take."""
    content = dict(pairs)
    if len(content) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"key {ascii(twice)[:60]} stands twice")
    return content


def event_in(values: dict[str, Any]) -> str:
    """The name of the event; "" without one."""
    event = string_in(values, "event", EVENT_BYTES)
    if (size := len(event.encode())) > EVENT_BYTES:
        raise InputError(f"event: {size} bytes, {EVENT_BYTES} are allowed; shorten it")
    return event


def string_in(values: dict[str, Any], key: str, most: int) -> str:
    """The string under a key, with at most this many characters; "" if missing or null."""
    value = values.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise InputError(f"{key}: {kind_of(value)}, expected a string")
    if len(value) > most:
        raise InputError(f"{key}: {len(value)} characters, {most} are allowed; shorten it")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(f"{key}: holds a lone surrogate, which is no character") from None
    return value


def flag_in(values: dict[str, Any], key: str) -> bool:
    """Whether the value of a key is true."""
    value = values.get(key)
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{key}: {kind_of(value)}, expected true or false")
    return bool(value)


def threshold_in(value: Any) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"threshold: {kind_of(value)}, expected a number above 0, at most 1")
    if not 0 < value <= 1:
        quoted = f"{value:g}" if isinstance(value, float) else "a whole number"
        raise InputError(f"threshold: {quoted} is not above 0 and at most 1")
    return float(value)


def milliseconds_in(values: dict[str, Any], key: str) -> int | None:
    value = values.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > 64 or not RFC_3339.fullmatch(value):
        quoted = ascii(value)[:40] if isinstance(value, str) else kind_of(value)
        _not_a_time(key, quoted)
    try:
        moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
        return (moment - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        _not_a_time(key, ascii(value))


def _not_a_time(key: str, quoted: str) -> NoReturn:
    raise InputError(
        f"{key}: {quoted} is no RFC 3339 time, as 2026-01-31T12:00:00Z, of the years 1 to 9999"
    )


def kind_of(value: Any) -> str:
    """The JSON type of a value."""
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "an array" if isinstance(value, list) else "an object")


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
    """A seed whose latest record is invalid, with the reason; it matches nothing."""

    id: str
    reason: str


def read_seed(
    key: bytes | None, value: bytes | None, limits: Limits = DEFAULT_LIMITS
) -> Seed | RefusedSeed | None:
    """The seed of a control record, or why it is refused; None for a deletion."""
    return admitted(key, value, limits, _seed)


def admitted(
    key: bytes | None,
    value: bytes | None,
    limits: Limits,
    make: Callable[[str, dict[str, Any], Limits], T],
) -> T | RefusedSeed | None:
    """The result for a record's id and object, or why it is refused; None for a deletion."""
    if value is None:
        return None
    try:
        if len(value) > limits.article_bytes:
            fault = f"{len(value)} bytes, {limits.article_bytes} are allowed; shorten it"
            raise InputError(f"limits.article_bytes: {fault}")
        return make(id_in(key), object_in(value), limits)
    except InputError as error:
        name = "" if key is None else key.decode("utf-8", "backslashreplace")
        return RefusedSeed(name[:KEY_BYTES], str(error))


def digest(value: Any) -> str:
    """The SHA-256 of a value as JSON without spaces and escapes, in hex."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _seed(name: str, values: dict[str, Any], limits: Limits) -> Seed:
    if name.startswith(PREFIX):
        raise InputError(TAKEN)
    text = string_in(values, "text", ARTICLE_CHARS)
    if not text.strip():
        raise InputError("text: missing or empty; give the article's text")
    seed = Seed(
        name,
        string_in(values, "title", TITLE_CHARS),
        text,
        event_in(values) or name,
        string_in(values, "url", URL_CHARS) or None,
        threshold_in(values.get("threshold")),
        milliseconds_in(values, "expires_at"),
        flag_in(values, "paused"),
    )
    _unmarked(seed, limits.marks)
    return seed


def _unmarked(seed: Seed, most: int) -> None:
    """Refuse an article with too many combining marks on a letter."""
    for name, text in (("title", seed.title), ("text", seed.text)):
        if (marks := most_marks(text)) > most:
            fault = f"{name}: a letter has {marks} combining marks, {most} are allowed"
            raise InputError(f"limits.marks: {fault}")
