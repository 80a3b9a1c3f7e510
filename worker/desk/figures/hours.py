"""Matches by the hour, as bars."""

from collections import Counter
from collections.abc import Mapping
from datetime import timedelta

from worker.desk.figures.svg import Frame, Tick, axes, bar, picture, ticks
from worker.posts.times import EPOCH, LAST_MS

HOUR = 3_600_000
SPANS = (1, 2, 3, 6, 12, 24, 48, 168, 720, 8760)  # hours that one bar may stand for
LAST_HOUR = LAST_MS // HOUR
MOST_BARS = 240
LABELS = 6


def hours_figure(event: str, hours: Mapping[int, int]) -> str:
    """How many posts matched in each hour; `hours` counts them by hours since 1970."""
    total = sum(hours.values())
    if not total:
        return _none(event)
    first, last = min(hours), max(hours)
    least = (last - first) // MOST_BARS + 1
    span = next((s for s in SPANS if s >= least), least)
    start = first // span * span
    bars = Counter[int]()
    for hour, count in hours.items():
        bars[(hour - start) // span] += count
    each = "hour" if span == 1 else f"{span} hours"
    frame = Frame(start, start + span * (max(bars) + 1), max(bars.values()))
    said = f"{total:,} posts from {_time(first)} to {_time(last + 1)} UTC"
    up: list[Tick] = [(v, f"{v:,.0f}") for v in ticks(frame.top) if v == int(v)]
    drawn = [
        bar(frame, start + span * n, start + span * (n + 1), bars[n],
            f"{_time(start + span * n)}: {bars[n]:,}")
        for n in sorted(bars)
    ]  # fmt: skip
    title = f"Matches of {event}"
    says = f"{title} by the {each}: {said}; at most {max(bars.values()):,} in one bar"
    body = [axes(frame, _across(frame), up, "time (UTC)", f"posts an {each}" if span == 1
                 else f"posts in {each}"), *drawn]  # fmt: skip
    return picture(title, says, said, body)


def _across(frame: Frame) -> list[Tick]:
    """Some hours along the axis, with their dates where they are days."""
    length = frame.high - frame.low
    step = next((s for s in SPANS if length / s <= LABELS), int(length // LABELS) + 1)
    form = "%H:%M" if length <= 24 else "%d %b %H:%M" if step < 24 else "%d %b %Y"
    first = -(-int(frame.low) // step) * step
    return [(hour, _time(hour, form)) for hour in range(first, int(frame.high) + 1, step)]


def _time(hour: int, form: str = "%Y-%m-%d %H:%M") -> str:
    return (EPOCH + timedelta(hours=min(max(hour, 0), LAST_HOUR))).strftime(form)


def _none(event: str) -> str:
    title = f"Matches of {event}"
    return picture(title, f"{title}: there are none", "there are none", [])
