"""Times as people type them: 2h, or a moment in RFC 3339."""

import re
import time
from datetime import datetime

from encoder.errors import InputError
from worker.posts.times import LAST_MS, rfc3339

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])", re.ASCII)


def now_ms() -> int:
    """The time in milliseconds, as Kafka counts it."""
    return int(time.time() * 1000)


def since(text: str, option: str = "--since") -> int:
    """The moment that far in the past, or the one that is named, in milliseconds."""
    return _moment(text, option, -1)


def until(text: str, option: str = "--expires-at") -> int:
    """The moment that far in the future, or the one that is named, in milliseconds."""
    return _moment(text, option, 1)


def seconds(text: str, option: str) -> float:
    """A span of time in seconds."""
    span = SPAN.fullmatch(text.strip())
    length = float(span[1]) * UNITS[span[2]] if span else 0.0
    if length < 1:
        problem = "is no span of time of a second or more; give one as 90s, 30m, 2h or 7d"
        raise InputError(f"{option} {text!r}: {problem}")
    return length


def _moment(text: str, option: str, direction: int) -> int:
    moment = _milliseconds(text.strip(), direction)
    if moment is None or moment > LAST_MS:
        raise InputError(
            f"{option} {text!r}: is no time; give a span as 90s, 30m, 2h or 7d, or a moment with "
            "its zone as 2026-01-31T12:00:00Z"
        )
    return max(moment, 0)


def _milliseconds(text: str, direction: int) -> int | None:
    if span := SPAN.fullmatch(text):
        return int((time.time() + direction * float(span[1]) * UNITS[span[2]]) * 1000)
    try:
        moment = datetime.fromisoformat(text.upper())
        return int(moment.timestamp() * 1000) if moment.tzinfo else None
    except (ValueError, OverflowError):
        return None


def present() -> str:
    """The present as RFC 3339."""
    return rfc3339(now_ms())
