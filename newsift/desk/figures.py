"""SVG figures of an event, without external references."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from xml.sax.saxutils import escape, quoteattr

from newsift.statistics.estimates import bin_counts
from worker.posts.times import EPOCH, LAST_MS
from worker.text import one_line, shorten

WIDTH, HEIGHT = 720, 360
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 64, 20, 76, 56
MAX_BAR_WIDTH = 60
MAX_LINE_CHARS, MAX_TITLE_CHARS = 90, 64
STYLES = {  # SVG attribute, colour on paper, colour on a dark screen
    "paper": ("fill", "#ffffff", "#1c2225"),
    "ink": ("fill", "#1b2124", "#e8ebe9"),
    "quiet": ("fill", "#566066", "#a3adb0"),
    "grid": ("stroke", "#dcd9d0", "#333c40"),
    "axis": ("stroke", "#566066", "#a3adb0"),
    "bar": ("fill", "#0f5c57", "#5cc4ba"),
    "outline": ("stroke", "#8a5300", "#ffc53d"),
    "cut": ("stroke", "#9f1d1d", "#ff9d94"),
}
Tick = tuple[float, str]
BAR_SPANS = (1, 2, 3, 6, 12, 24, 48, 168, 720, 8760)  # hours
MAX_BARS = 240
MAX_MINUTES = 120
MAX_LABELS = 6
BINS = 50
MAX_DECIMAL_SHARE = 0.05  # Axes up to 5 % show a decimal.
MAX_THRESHOLDS = 5


@dataclass(frozen=True, slots=True)
class Axes:
    """Maps low to high, and 0 to top, to pixels."""

    low: float
    high: float
    top: float

    def x(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(MARGIN_LEFT + share * (WIDTH - MARGIN_LEFT - MARGIN_RIGHT), 2)

    def y(self, value: float) -> float:
        return round(
            HEIGHT - MARGIN_BOTTOM - value / self.top * (HEIGHT - MARGIN_TOP - MARGIN_BOTTOM), 2
        )


def svg_document(title: str, description: str, subtitle: str, shapes: Iterable[str]) -> str:
    """A screen reader reads the title and the description."""
    dark = " ".join(f".{kind} {{ {name}: {there}; }}" for kind, (name, _, there) in STYLES.items())
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = [
        svg_text(MARGIN_LEFT, 24, printable_line(title, MAX_TITLE_CHARS), size=16),
        svg_text(MARGIN_LEFT, 44, printable_line(subtitle), "quiet"),
    ]
    role = 'role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif"'
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {role}>',
        f'<title id="title">{escape(printable_line(title))}</title>',
        f'<desc id="desc">{escape(one_line(description))}</desc>',
        f"<style>@media screen and (prefers-color-scheme: dark) {{ {dark} }}</style>",
        svg_element("rect", "paper", width=WIDTH, height=HEIGHT),
        *head, *shapes, "</svg>",
    ]  # fmt: skip
    return "\n".join(body) + "\n"


def svg_element(name: str, kind: str, **attributes: object) -> str:
    colour, value, _ = STYLES[kind]
    values = {"class": kind, colour: value, **attributes}
    if colour == "stroke":
        values = {"fill": "none"} | values
    pairs = " ".join(f"{key.replace('_', '-')}={quoteattr(str(v))}" for key, v in values.items())
    return f"<{name} {pairs}/>"


def svg_text(
    x: float, y: float, content: str, kind: str = "ink", anchor: str = "start", size: int = 12
) -> str:
    _, value, _ = STYLES[kind]
    return (
        f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{value}">{escape(content)}</text>'
    )


def draw_axes(
    frame: Axes, across: Sequence[Tick], up: Sequence[Tick], below: str, beside: str
) -> str:
    right, bottom = WIDTH - MARGIN_RIGHT, HEIGHT - MARGIN_BOTTOM
    parts = [
        svg_element("path", "grid", d=f"M{MARGIN_LEFT} {frame.y(value)}H{right}")
        for value, _ in up
        if value
    ]
    parts += [svg_text(MARGIN_LEFT - 6, frame.y(v) + 4, label, "quiet", "end") for v, label in up]
    parts += [svg_text(frame.x(v), bottom + 18, label, "quiet", "middle") for v, label in across]
    parts += [svg_element("path", "axis", d=f"M{frame.x(v)} {bottom}v4") for v, _ in across]
    parts.append(svg_element("path", "axis", d=f"M{MARGIN_LEFT} {bottom}H{right}"))
    parts.append(
        svg_text((MARGIN_LEFT + right) / 2, HEIGHT - 14, printable_line(below), "ink", "middle")
    )
    parts.append(
        svg_text(MARGIN_LEFT, MARGIN_TOP - 8, printable_line(beside), "quiet", "start", 11)
    )
    return "\n".join(parts)


def draw_bar(frame: Axes, start: float, end: float, value: float, tooltip: str) -> str:
    left, right, up = frame.x(start), frame.x(end), frame.y(value)
    space = right - left
    width = round(min(max(space - (1 if space > 3 else 0), 0.5), MAX_BAR_WIDTH), 2)
    place = {"x": round(left + (space - width) / 2, 2), "y": up, "width": width}
    rect = svg_element("rect", "bar", **place, height=round(frame.y(0) - up, 2))
    return f"{rect[:-2]}><title>{escape(printable_line(tooltip))}</title></rect>"


def draw_outline(frame: Axes, edges: Sequence[float], values: Sequence[float]) -> str:
    """Draws the outline of a histogram up to its last value above 0."""
    path = [f"M{frame.x(edges[0])} {frame.y(0)}"]
    last = max((index for index, value in enumerate(values) if value), default=-1)
    for index, value in enumerate(values[: last + 1]):
        path.append(f"V{frame.y(value)}H{frame.x(edges[index + 1])}")
    return svg_element("path", "outline", d="".join(path) + f"V{frame.y(0)}", stroke_width=2)


def axis_ticks(top: float, most: int = 5) -> list[float]:
    """Round numbers from 0 up to `top`."""
    raw = top / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = size * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw * 0.999)
    return [n * step for n in range(math.floor(top / step + 1e-9) + 1)]


def printable_line(text: str, most: int = MAX_LINE_CHARS) -> str:
    return shorten(one_line(text), most)


@dataclass(frozen=True, slots=True)
class Unit:
    name: str
    article: str
    length: timedelta
    spans: tuple[int, ...]  # of one bar, or between two labels, in units
    day: int  # units of a day


HOURS = Unit("hour", "an", timedelta(hours=1), BAR_SPANS, 24)
MINUTES = Unit("minute", "a", timedelta(minutes=1), (1, 2, 5, 10, 15, 30), 1440)


def hours_figure(
    event: str, hours: Mapping[int, int], minutes: Mapping[int, int] | None = None
) -> str:
    """Keys are hours and minutes since 1970; minutes are drawn where they are few."""
    if not sum(hours.values()):
        title = f"Matches of {event}"
        return svg_document(title, f"{title}: there are none", "there are none", [])
    if minutes and max(minutes) - min(minutes) < MAX_MINUTES:
        return _draw_counts(event, minutes, MINUTES)
    return _draw_counts(event, hours, HOURS)


def _draw_counts(event: str, counts: Mapping[int, int], unit: Unit) -> str:
    total = sum(counts.values())
    first, last = min(counts), max(counts)
    least = (last - first) // MAX_BARS + 1
    span = next((s for s in unit.spans if s >= least), least)
    start = first // span * span
    bars = Counter[int]()
    for number, count in counts.items():
        bars[(number - start) // span] += count
    span_text = unit.name if span == 1 else f"{span} {unit.name}s"
    frame = Axes(start, start + span * (max(bars) + 1), max(bars.values()))
    subtitle = (
        f"{total:,} posts from {_format_time(first, unit)} to {_format_time(last + 1, unit)} UTC"
    )
    up: list[Tick] = [(v, f"{v:,.0f}") for v in axis_ticks(frame.top) if v == int(v)]
    shapes = [
        draw_bar(frame, start + span * n, start + span * (n + 1), bars[n],
            f"{_format_time(start + span * n, unit)}: {bars[n]:,}")
        for n in sorted(bars)
    ]  # fmt: skip
    title = f"Matches of {event}"
    description = (
        f"{title} by the {span_text}: {subtitle}; at most {max(bars.values()):,} in one bar"
    )
    rate = f"posts {unit.article} {span_text}" if span == 1 else f"posts in {span_text}"
    body = [draw_axes(frame, _time_ticks(frame, unit), up, "time (UTC)", rate), *shapes]
    return svg_document(title, description, subtitle, body)


def _time_ticks(frame: Axes, unit: Unit) -> list[Tick]:
    length = frame.high - frame.low
    step = next((s for s in unit.spans if length / s <= MAX_LABELS), int(length // MAX_LABELS) + 1)
    form = "%H:%M" if length <= unit.day else "%d %b %H:%M" if step < unit.day else "%d %b %Y"
    first = -(-int(frame.low) // step) * step
    return [
        (number, _format_time(number, unit, form))
        for number in range(first, int(frame.high) + 1, step)
    ]


def _format_time(number: int, unit: Unit, form: str = "%Y-%m-%d %H:%M") -> str:
    last = timedelta(milliseconds=LAST_MS) // unit.length
    return (EPOCH + min(max(number, 0), last) * unit.length).strftime(form)


@dataclass(frozen=True, slots=True)
class Histogram:
    """`edges` has one more than `counts`."""

    edges: Sequence[float]
    counts: Sequence[int]

    @property
    def total(self) -> int:
        return sum(self.counts)

    @property
    def shares(self) -> list[float]:
        return [count / max(self.total, 1) for count in self.counts]


def scores_figure(
    event: str, matches: Histogram, background: Histogram | None, thresholds: Sequence[float]
) -> str:
    """Bars of the matches, the outline of the background, and a line at each threshold."""
    both = matches.shares + (background.shares if background else [])
    frame = Axes(matches.edges[0], matches.edges[-1], max([*both, 0.01]))
    across: list[Tick] = [(v, f"{v:.1f}") for v in axis_ticks(frame.high, 10) if v >= frame.low]
    share = ".0%" if frame.top >= MAX_DECIMAL_SHARE else ".1%"
    up: list[Tick] = [(v, format(v, share)) for v in axis_ticks(frame.top)]
    shapes = [draw_axes(frame, across, up, "score", "share of the posts")]
    pairs = zip(matches.edges, matches.edges[1:], matches.counts, matches.shares, strict=False)
    shapes += [
        draw_bar(frame, low, high, share, f"{low:.2f} to {high:.2f}: {count:,}")
        for low, high, count, share in pairs if count
    ]  # fmt: skip
    if background:
        shapes.append(draw_outline(frame, background.edges, background.shares))
    for threshold in thresholds[:MAX_THRESHOLDS]:
        x = frame.x(min(max(threshold, frame.low), frame.high))
        line = f"M{x} {MARGIN_TOP}V{HEIGHT - MARGIN_BOTTOM}"
        shapes.append(svg_element("path", "cut", d=line, stroke_width=2, stroke_dasharray="5 3"))
    subtitle = _legend(matches, background, thresholds)
    title = f"Scores of {event}"
    return svg_document(title, f"{title}: {subtitle}", subtitle, shapes)


def score_histogram(scores: Sequence[float]) -> Histogram:
    """Bins from 0 to 1; scores outside count in the first or last bin."""
    edges = [n / BINS for n in range(BINS + 1)]
    return Histogram(edges, bin_counts(edges, scores).astype(int).tolist())


def _legend(matches: Histogram, background: Histogram | None, thresholds: Sequence[float]) -> str:
    parts = [f"bars: {matches.total:,} matches"]
    if background:
        parts.append(f"outline: {background.total:,} posts of the background")
    rising = sorted(thresholds)
    if len(rising) > 1:
        parts.append(f"dashed: {len(rising):,} thresholds from {rising[0]:.3f} to {rising[-1]:.3f}")
    elif rising:
        parts.append(f"dashed: threshold {rising[0]:.3f}")
    return "; ".join(parts)
