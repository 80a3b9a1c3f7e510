"""`newsift bench profiles`: how precise an event's profile is, and what it learns from silence."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

import encoder
from bench.crises import CrisisScene, Draw, scenes
from bench.measure import Say
from bench.part import Cell, Part
from bench.profiles import ways
from bench.profiles.ways import Way, WayScores

RATES = (50, 200, 500)
MIDDLE = RATES.index(200)
SILENT = 0
# A row: how it compares, and one post in how many is on the event where it learns; None: as judged.
ROWS: dict[str, tuple[Way, int | None]] = {
    "maximum over the seeds": (ways.highest, SILENT),
    "mean of the seeds": (ways.middle, SILENT),
    "less the background, no stream": (ways.background_only, SILENT),
    "learned, no label": (ways.unlabelled, None),
    "learned, 10 labels": (ways.labelled, None),
    "learned, a burst seen": (ways.watched, None),
    "learned from 1 in 1,000": (ways.unlabelled, 1000),
    "the same, 10 labels": (ways.labelled, 1000),
    "the same, a burst seen": (ways.watched, 1000),
    "silent stream": (ways.unlabelled, SILENT),
    "the same, 10 labels off": (ways.labelled, SILENT),
    "the same, no burst seen": (ways.watched, SILENT),
    "silent, a flood by one author": (ways.flooded, SILENT),
}
REMARKS = (
    "Precision × 100 at 80 % recall, on posts that nothing was learned from; means of the draws.",
    "off topic: AUC × 100 against posts gathered with the event's, off it. At the automatic",
    "threshold (1 in 1,000 of the background): recall × 100, and how many of 1,000 news pass.",
)


class ProfileFigures(NamedTuple):
    """The figures of a row on an event: a mean over draws, or one draw's."""

    precision: tuple[float, ...]  # at each of the rates
    off_topic: float
    recall: float
    passes: float
    beta: float


def measure_profiles(model: str, data: Path, draws: int, say: Say) -> list[Part]:
    """Every row on every crisis."""
    found: dict[str, dict[str, ProfileFigures]] = {}
    with encoder.load(model, device="cpu") as enc:
        for scene in scenes(enc, data):
            found[scene.name] = {row: mean_of(scene, row, draws, say) for row in ROWS}
    return [precision_part(found, draws), threshold_part(found)]


def mean_of(scene: CrisisScene, row: str, draws: int, say: Say) -> ProfileFigures:
    """The mean figures of a row on an event."""
    way, learns = ROWS[row]
    each = []
    for seed in range(draws):
        say(f"{scene.name}: {row}, draw {seed + 1} of {draws}")
        if learns is None:
            several = [scene.draw(rate, seed) for rate in RATES]
            each.append(figures_of(several, [way(draw) for draw in several]))
        else:
            draw = scene.draw(learns, seed)
            each.append(figures_of([draw] * len(RATES), [way(draw)] * len(RATES)))
    return averaged(each)


def figures_of(draws: Sequence[Draw], judged: Sequence[WayScores]) -> ProfileFigures:
    """The figures of one draw, learned for each rate; all but the precision at the middle one."""
    precision = tuple(
        draw.precision(found.scores, rate)
        for draw, found, rate in zip(draws, judged, RATES, strict=True)
    )
    draw, found = draws[MIDDLE], judged[MIDDLE]
    recall, passes = (float(found.reached[rows].mean()) for rows in (draw.on, draw.news))
    return ProfileFigures(precision, draw.off_topic(found.scores), recall, passes, found.beta)


def averaged(each: Sequence[ProfileFigures]) -> ProfileFigures:
    """The mean of findings."""
    precision = np.mean([one.precision for one in each], axis=0)
    rest = np.mean([one[1:] for one in each], axis=0)
    return ProfileFigures(tuple(precision.tolist()), *rest.tolist())


def precision_part(found: dict[str, dict[str, ProfileFigures]], draws: int) -> Part:
    """How precise each row is."""
    rows: list[list[Cell]] = []
    for row in ROWS:
        events = [found[event][row] for event in found]
        mean = averaged(events)
        rows.append([
            row, *(100 * one.precision[MIDDLE] for one in events),
            *(100 * share for share in mean.precision), 100 * mean.off_topic, mean.beta,
        ])  # fmt: skip
    names = [f"{event.replace('_', ' ')}, 1 in {RATES[MIDDLE]}" for event in found]
    means = [f"mean, 1 in {rate}" for rate in RATES]
    title = f"Precision at 80 % recall, means of {draws} draws"
    return Part("precision", title, ("way", *names, *means, "off topic", "β"), rows, REMARKS)


def threshold_part(found: dict[str, dict[str, ProfileFigures]]) -> Part:
    """What passes at the automatic threshold."""
    rows: list[list[Cell]] = []
    for row in ROWS:
        cells: list[Cell] = [row]
        for event in found:
            one = found[event][row]
            cells += [100 * one.recall, 1000 * one.passes, 100 * one.off_topic]
        rows.append(cells)
    header = [
        f"{event.replace('_', ' ')}, {name}"
        for event in found
        for name in ("recall", "news in 1,000", "off topic")
    ]
    return Part("threshold", "At the automatic threshold", ("way", *header), rows)
