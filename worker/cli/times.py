"""Times as people type them: 2h, or a moment in RFC 3339."""

import re
import time
from datetime import UTC, datetime

from encoder.errors import InputError

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)([smhdw])", re.ASCII)
MOMENT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def since(text: str, option: str = "--since") -> int:
    """The moment that far in the past, or the one that is named, in milliseconds."""
    return _moment(text, option, -1)


def until(text: str, option: str = "--expires-at") -> int:
    """The moment that far in the future, or the one that is named, in milliseconds."""
    return _moment(text, option, 1)


def rfc_3339(milliseconds: int) -> str:
    """A moment as the records write it: RFC 3339 in UTC."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _moment(text: str, option: str, direction: int) -> int:
    if span := SPAN.fullmatch(text.strip()):
        seconds = float(span[1]) * UNITS[span[2]]
        return max(int((time.time() + direction * seconds) * 1000), 0)
    if MOMENT.fullmatch(text.strip()):
        try:
            return max(int(datetime.fromisoformat(text.strip().upper()).timestamp() * 1000), 0)
        except (ValueError, OverflowError):
            pass
    raise InputError(
        f"{option} {text!r}: is no time; give a span as 90s, 30m, 2h or 7d, or a moment with its "
        "zone as 2026-01-31T12:00:00Z"
    )
