"""Matches by the hour, as bars; by the minute where all came within two hours."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from worker.desk.figures.svg import Frame, Tick, axes, bar, picture, ticks
from worker.posts.times import EPOCH, LAST_MS

HOUR = 3_600_000
SPANS = (1, 2, 3, 6, 12, 24, 48, 168, 720, 8760)  # hours that one bar may stand for
LAST_HOUR = LAST_MS // HOUR
MOST_BARS = 240
MOST_MINUTES = 120
LABELS = 6


@dataclass(frozen=True, slots=True)
class Unit:
    """What posts are counted by."""

    name: str
    article: str
    length: timedelta
    spans: tuple[int, ...]  # units that one bar, or the way between two labels, may be
    day: int  # units of a day
    last: int


HOURS = Unit("hour", "an", timedelta(hours=1), SPANS, 24, LAST_HOUR)
MINUTES = Unit("minute", "a", timedelta(minutes=1), (1, 2, 5, 10, 15, 30), 1440, LAST_MS // 60_000)


def hours_figure(
    event: str, hours: Mapping[int, int], minutes: Mapping[int, int] | None = None
) -> str:
    """How many posts matched in each hour; both count them since 1970."""
    if not sum(hours.values()):
        return _none(event)
    if minutes and max(minutes) - min(minutes) < MOST_MINUTES:
        return _figure(event, minutes, MINUTES)
    return _figure(event, hours, HOURS)


def _figure(event: str, counts: Mapping[int, int], unit: Unit) -> str:
    total = sum(counts.values())
    first, last = min(counts), max(counts)
    least = (last - first) // MOST_BARS + 1
    span = next((s for s in unit.spans if s >= least), least)
    start = first // span * span
    bars = Counter[int]()
    for at, count in counts.items():
        bars[(at - start) // span] += count
    each = unit.name if span == 1 else f"{span} {unit.name}s"
    frame = Frame(start, start + span * (max(bars) + 1), max(bars.values()))
    said = f"{total:,} posts from {_time(first, unit)} to {_time(last + 1, unit)} UTC"
    up: list[Tick] = [(v, f"{v:,.0f}") for v in ticks(frame.top) if v == int(v)]
    drawn = [
        bar(frame, start + span * n, start + span * (n + 1), bars[n],
            f"{_time(start + span * n, unit)}: {bars[n]:,}")
        for n in sorted(bars)
    ]  # fmt: skip
    title = f"Matches of {event}"
    says = f"{title} by the {each}: {said}; at most {max(bars.values()):,} in one bar"
    rate = f"posts {unit.article} {each}" if span == 1 else f"posts in {each}"
    body = [axes(frame, _across(frame, unit), up, "time (UTC)", rate), *drawn]
    return picture(title, says, said, body)


def _across(frame: Frame, unit: Unit) -> list[Tick]:
    """Some times along the axis, with their dates where they are days."""
    length = frame.high - frame.low
    step = next((s for s in unit.spans if length / s <= LABELS), int(length // LABELS) + 1)
    form = "%H:%M" if length <= unit.day else "%d %b %H:%M" if step < unit.day else "%d %b %Y"
    first = -(-int(frame.low) // step) * step
    return [(at, _time(at, unit, form)) for at in range(first, int(frame.high) + 1, step)]


def _time(at: int, unit: Unit, form: str = "%Y-%m-%d %H:%M") -> str:
    return (EPOCH + min(max(at, 0), unit.last) * unit.length).strftime(form)


def _none(event: str) -> str:
    title = f"Matches of {event}"
    return picture(title, f"{title}: there are none", "there are none", [])
