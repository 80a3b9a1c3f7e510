"""Times and spans as people type them, and the present."""

import re
import time
from contextlib import suppress
from datetime import datetime

from encoder.errors import InputError
from worker.posts.times import LAST_MS, rfc3339

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])", re.ASCII)


def now_ms() -> int:
    return int(time.time() * 1000)


def now_text() -> str:
    return rfc3339(now_ms())


def parse_since(text: str) -> int:
    """Milliseconds of a time: a span before now, or RFC 3339."""
    return _milliseconds(text.strip(), "--since", -1)


def parse_until(text: str, option: str = "--expires-at") -> int:
    """Milliseconds of a time: a span from now, or RFC 3339."""
    return _milliseconds(text.strip(), option, 1)


def _milliseconds(text: str, option: str, direction: int) -> int:
    moment = float("inf")
    if span := SPAN.fullmatch(text):
        moment = time.time() + direction * float(span[1]) * UNITS[span[2]]
    else:
        with suppress(ValueError, OverflowError):
            date = datetime.fromisoformat(text.upper())
            moment = date.timestamp() if date.tzinfo else moment
    if moment * 1000 >= LAST_MS + 1:
        raise InputError(
            f"{option} {text!r}: is not a time; give a span such as 90s, 30m, 2h or 7d, or a "
            "time with its zone such as 2026-01-31T12:00:00Z"
        )
    return max(int(moment * 1000), 0)


def parse_seconds(text: str, option: str) -> float:
    span = SPAN.fullmatch(text.strip())
    length = float(span[1]) * UNITS[span[2]] if span else 0.0
    if length < 1:
        problem = "is not a span of time of a second or more; give one such as 90s, 30m, 2h or 7d"
        raise InputError(f"{option} {text!r}: {problem}")
    return length
