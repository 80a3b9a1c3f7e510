"""What stands in a record of the control topic, value by value: read, or refused with a remedy."""

import json
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from encoder.errors import InputError

KEY_BYTES = 256
EVENT_BYTES = 240
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RFC_3339 = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def id_in(key: bytes | None) -> str:
    """The id that a key is."""
    if not key:
        raise InputError("key: missing; a seed's id is the key of its record")
    if len(key) > KEY_BYTES:
        raise InputError(f"key: {len(key)} bytes, {KEY_BYTES} are allowed; use a shorter id")
    try:
        return key.decode()
    except UnicodeDecodeError:
        raise InputError("key: is not UTF-8; a seed's id is text") from None


def object_in(value: bytes) -> dict[str, Any]:
    """The JSON object in a value."""
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
        raise InputError(f"value: {kind_of(found)}, expected an object with a text")
    return found


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; a key that stands twice says two things, and readers differ in which they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, n in Counter(name for name, _ in pairs).items() if n > 1)
        raise ValueError(f"key {ascii(twice)[:60]} stands twice")
    return found


def event_in(given: dict[str, Any]) -> str:
    """The event's name; "" where there is none."""
    event = string_in(given, "event", EVENT_BYTES)
    if (size := len(event.encode())) > EVENT_BYTES:
        raise InputError(f"event: {size} bytes, {EVENT_BYTES} are allowed; shorten it")
    return event


def string_in(given: dict[str, Any], key: str, most: int) -> str:
    """The string under a key, of so many characters at most; "" where there is none, or null."""
    value = given.get(key)
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


def flag_in(given: dict[str, Any], key: str) -> bool:
    """Whether a key says true."""
    value = given.get(key)
    if value is not None and not isinstance(value, bool):
        raise InputError(f"{key}: {kind_of(value)}, expected true or false")
    return bool(value)


def threshold_in(value: Any) -> float | None:
    """The score from which a post matches."""
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"threshold: {kind_of(value)}, expected a number above 0, at most 1")
    if not 0 < value <= 1:
        shown = f"{value:g}" if isinstance(value, float) else "a whole number"
        raise InputError(f"threshold: {shown} is not above 0 and at most 1")
    return float(value)


def milliseconds_in(given: dict[str, Any], key: str) -> int | None:
    """The time under a key, in milliseconds."""
    value = given.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or len(value) > 64 or not RFC_3339.fullmatch(value):
        shown = ascii(value)[:40] if isinstance(value, str) else kind_of(value)
        _not_a_time(key, shown)
    try:
        moment = datetime.fromisoformat(value.upper()).astimezone(UTC)
        return (moment - EPOCH) // timedelta(milliseconds=1)
    except (ValueError, OverflowError):
        _not_a_time(key, ascii(value))


def _not_a_time(key: str, shown: str) -> NoReturn:
    raise InputError(
        f"{key}: {shown} is no RFC 3339 time, as 2026-01-31T12:00:00Z, of the years 1 to 9999"
    )


def kind_of(value: Any) -> str:
    """What a JSON value is, in the words of JSON."""
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string"}
    return names.get(type(value), "an array" if isinstance(value, list) else "an object")
