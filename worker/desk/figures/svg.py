"""SVG by plain functions: a frame with its axes, and what is drawn in it.

Each element has the colour for paper as an attribute, which every program reads; a style sheet
gives another to who looks at it on a dark screen.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape, quoteattr

from worker.visible import one_line

WIDTH, HEIGHT = 720, 360
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 76, 56
WIDEST = 60  # of a bar: one alone is no wall
LONGEST = 90  # characters of a line
TITLE = 64  # of one in large letters
KINDS = {  # what it is: the attribute that has its colour, on paper and on a dark screen
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


@dataclass(frozen=True, slots=True)
class Frame:
    """Where values stand in the picture: x from low to high, y from 0 to its top."""

    low: float
    high: float
    top: float

    def x(self, value: float) -> float:
        """The place of a value from left to right."""
        share = (value - self.low) / (self.high - self.low)
        return round(LEFT + share * (WIDTH - LEFT - RIGHT), 2)

    def y(self, value: float) -> float:
        """The place of a value from the top down."""
        return round(HEIGHT - BOTTOM - value / self.top * (HEIGHT - TOP - BOTTOM), 2)


def picture(title: str, says: str, said: str, drawn: Iterable[str]) -> str:
    """A whole file: what it is called and says, a line above what is drawn, and that itself."""
    dark = " ".join(f".{kind} {{ {name}: {there}; }}" for kind, (name, _, there) in KINDS.items())
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    head = [text(LEFT, 24, line(title, TITLE), size=16), text(LEFT, 44, line(said), "quiet")]
    known = 'role="img" aria-labelledby="title desc" font-family="system-ui, sans-serif"'
    body = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {known}>',
        f'<title id="title">{escape(line(title))}</title>',
        f'<desc id="desc">{escape(one_line(says))}</desc>',
        f"<style>@media screen and (prefers-color-scheme: dark) {{ {dark} }}</style>",
        shape("rect", "paper", width=WIDTH, height=HEIGHT),
        *head, *drawn, "</svg>",
    ]  # fmt: skip
    return "\n".join(body) + "\n"


def shape(name: str, kind: str, **attributes: object) -> str:
    """An element of some kind, with what it is told."""
    colour, value, _ = KINDS[kind]
    given = {"class": kind, colour: value, **attributes}
    if colour == "stroke":
        given = {"fill": "none"} | given
    told = " ".join(f"{key.replace('_', '-')}={quoteattr(str(v))}" for key, v in given.items())
    return f"<{name} {told}/>"


def text(
    x: float, y: float, said: str, kind: str = "ink", anchor: str = "start", size: int = 12
) -> str:
    """A line of text."""
    _, value, _ = KINDS[kind]
    return (
        f'<text class="{kind}" x="{x}" y="{y}" text-anchor="{anchor}" font-size="{size}" '
        f'fill="{value}">{escape(said)}</text>'
    )


def axes(frame: Frame, across: Sequence[Tick], up: Sequence[Tick], below: str, beside: str) -> str:
    """The grid, the numbers along it, and what they count."""
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts = [
        shape("path", "grid", d=f"M{LEFT} {frame.y(value)}H{right}") for value, _ in up if value
    ]
    parts += [text(LEFT - 6, frame.y(v) + 4, said, "quiet", "end") for v, said in up]
    parts += [text(frame.x(v), bottom + 18, said, "quiet", "middle") for v, said in across]
    parts += [shape("path", "axis", d=f"M{frame.x(v)} {bottom}v4") for v, _ in across]
    parts.append(shape("path", "axis", d=f"M{LEFT} {bottom}H{right}"))
    parts.append(text((LEFT + right) / 2, HEIGHT - 14, line(below), "ink", "middle"))
    parts.append(text(LEFT, TOP - 8, line(beside), "quiet", "start", 11))
    return "\n".join(parts)


def bar(frame: Frame, start: float, end: float, value: float, says: str) -> str:
    """A bar between two values of x, which says what it stands for to who points at it."""
    left, right, up = frame.x(start), frame.x(end), frame.y(value)
    space = right - left
    width = round(min(max(space - (1 if space > 3 else 0), 0.5), WIDEST), 2)
    place = {"x": round(left + (space - width) / 2, 2), "y": up, "width": width}
    drawn = shape("rect", "bar", **place, height=round(frame.y(0) - up, 2))
    return f"{drawn[:-2]}><title>{escape(line(says))}</title></rect>"


def steps(frame: Frame, edges: Sequence[float], values: Sequence[float]) -> str:
    """The outline of a histogram, up to its last value above 0."""
    path = [f"M{frame.x(edges[0])} {frame.y(0)}"]
    last = max((at for at, value in enumerate(values) if value), default=-1)
    for at, value in enumerate(values[: last + 1]):
        path.append(f"V{frame.y(value)}H{frame.x(edges[at + 1])}")
    return shape("path", "outline", d="".join(path) + f"V{frame.y(0)}", stroke_width=2)


def ticks(top: float, most: int = 5) -> list[float]:
    """Round numbers from 0 up to a value, few enough to be read."""
    raw = top / most
    size = 10.0 ** math.floor(math.log10(raw))
    step = size * next(factor for factor in (1, 2, 2.5, 5, 10) if factor * size >= raw * 0.999)
    return [n * step for n in range(math.floor(top / step + 1e-9) + 1)]


def line(said: str, longest: int = LONGEST) -> str:
    """A text of strangers in a line of a picture: what can be seen of it, cut where it is long."""
    seen = one_line(said)
    return seen if len(seen) <= longest else f"{seen[: longest - 1]}…"
