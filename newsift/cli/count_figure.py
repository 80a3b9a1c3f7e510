"""The figure of `newsift estimate --out`: matches, and posts on the event with their interval."""

from datetime import UTC
from io import BytesIO
from typing import Any
from warnings import catch_warnings, simplefilter

import matplotlib as mpl
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from newsift.statistics.count_frame import CountSeries
from newsift.statistics.counts import CONFIDENCE
from worker.posts.times import DAY_MS
from worker.text import one_line, shorten

SIZE = 7.2, 3.2  # inches
BLUE, GREY = "#0072b2", "#d5d5d5"
MAX_TITLE_CHARS = 40
SETTINGS: Any = {
    "svg.hashsalt": "newsift", "svg.fonttype": "path", "savefig.dpi": 200, "font.size": 9,
    "axes.spines.top": False, "axes.spines.right": False,
    "text.parse_math": False,  # a name is no formula
}  # fmt: skip


def draw_counts(event: str, series: CountSeries, step: int, kind: str) -> bytes:
    """SVG or PNG, the same at every call. Without an upper end, the lower one is drawn alone."""
    starts = [(period.start or 0) / DAY_MS for period in series.periods]  # as axes count
    middles = [start + step / DAY_MS / 2 for start in starts]
    estimates = [period.estimate for period in series.periods]
    with mpl.rc_context(SETTINGS), catch_warnings():
        simplefilter("ignore", UserWarning)  # letters that the font lacks
        figure = Figure(figsize=SIZE, layout="constrained")
        axes = figure.subplots()
        matches = [period.matches for period in series.periods]
        axes.bar(starts, matches, step / DAY_MS, align="edge", color=GREY, label="matches")
        lows, values = ([estimate[n] for estimate in estimates] for n in (0, 1))
        if series.missing:
            axes.plot(
                middles, lows, ".-", color=BLUE, label=f"on the event, at least ({CONFIDENCE:.0%})"
            )
        else:
            highs = [estimate[2] for estimate in estimates]
            below = [value - low for value, low in zip(values, lows, strict=True)]
            above = [high - value for value, high in zip(values, highs, strict=True)]
            axes.fill_between(middles, lows, highs, color=BLUE, alpha=0.2, linewidth=0)
            axes.errorbar(
                middles, values, (below, above), fmt=".-", color=BLUE, capsize=2, linewidth=1,
                label=f"on the event, with {CONFIDENCE:.0%} interval",
            )  # fmt: skip
        locator = AutoDateLocator(tz=UTC)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_locator(locator)
        form = ConciseDateFormatter(locator, tz=UTC)  # type: ignore[no-untyped-call]
        axes.xaxis.set_major_formatter(form)
        axes.set_ylim(bottom=0)
        axes.set_ylabel("posts")
        axes.set_title(shorten(one_line(event), MAX_TITLE_CHARS), loc="left")
        axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        out = BytesIO()
        omitted = {"svg": "Date", "png": "Software"}[kind]
        figure.savefig(out, format=kind, metadata={omitted: None})
    return out.getvalue()
