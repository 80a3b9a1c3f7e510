"""Times as platforms write them, converted to RFC 3339 in UTC."""

import re
from datetime import UTC, datetime, timedelta, tzinfo

RFC3339_UTC = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?Z")
# As spreadsheets write it where a point stands between day and month: 28.11.2026 18:00
DAY_FIRST = re.compile(
    r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4}),? ([0-9]{1,2})(:[0-9]{2}(?::[0-9]{2})?)"
)
MONTH_NAMES = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"]
MONTHS = {name: f"{number:02}" for number, name in enumerate(MONTH_NAMES, 1)}
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# What RFC 3339 and Python can write, in milliseconds since 1970: the years 1 to 9999.
FIRST_MS, LAST_MS = -62_135_596_800_000, 253_402_300_799_999
MAX_SECONDS = 10**11  # A larger number counts milliseconds.
MAX_TIME_CHARS = 64
MINUTE_MS, HOUR_MS, DAY_MS = 60_000, 3_600_000, 86_400_000


def utc(text: str | float | None, zone: tzinfo = UTC) -> str | None:
    """A time as RFC 3339 in UTC; None if it cannot be read.

    `zone` applies to times without an offset. Of an hour that occurs twice, the earlier one is
    taken; a time that does not exist is read with the offset before it: 02:30 is 03:30 of summer
    time.
    """
    if text is None:
        return None
    if not isinstance(text, str):
        return _since_1970(text)
    if len(text) > MAX_TIME_CHARS:
        return None
    try:
        if not text[:1].isdigit():  # Wed Oct 10 20:19:24 +0000 2018
            text = _from_x1(text)
        moment = _moment(text)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=zone)
        return text if RFC3339_UTC.fullmatch(text) else _format(moment)
    except (ValueError, OverflowError):
        return None


def is_naive(text: str) -> bool:
    try:
        return _moment(text).tzinfo is None
    except ValueError:
        return False


def rfc3339(milliseconds: int) -> str:
    """A time to the millisecond, clipped to the years 1 to 9999."""
    within = min(max(milliseconds, FIRST_MS), LAST_MS)
    moment = EPOCH + timedelta(milliseconds=within)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(text: str | None) -> int:
    """Milliseconds since 1970 of a result of `utc`, as Kafka counts; 0 for None."""
    if text is None:
        return 0
    return max(0, round(datetime.fromisoformat(text).timestamp() * 1000))


def _moment(text: str) -> datetime:
    if "." in text[:3] and (spreadsheet := DAY_FIRST.fullmatch(text)):
        day, month, year, hour, rest = spreadsheet.groups()
        text = f"{year}-{month:0>2}-{day:0>2}T{hour:0>2}{rest}"
    return datetime.fromisoformat(text)


def _from_x1(text: str) -> str:
    _, month, day, clock, offset, year = text.split(" ")
    zone = "Z" if offset == "+0000" else f"{offset[:3]}:{offset[3:]}"
    return f"{year}-{MONTHS.get(month)}-{day}T{clock}{zone}"


def _since_1970(count: float) -> str | None:
    try:
        seconds = count if abs(count) < MAX_SECONDS else count / 1000
        return _format(datetime.fromtimestamp(seconds, UTC))
    except (ValueError, OverflowError, OSError):
        return None


def _format(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")
