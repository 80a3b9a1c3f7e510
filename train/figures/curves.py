"""How training went: losses by kind and the figures of dev, several runs one over the other."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from encoder.errors import InputError
from train.figures.style import MARKERS, dashes, grid, page, shown
from train.figures.subject import MissingDataError, Sheet, Subject

F64 = NDArray[np.float64]
COLUMNS = 4
KINDS = {"losses": "loss", "dev": "dev"}
PANEL_HEIGHT = 1.65
TITLE_WIDTH = 22  # characters above a panel


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What a log says: the series by their names, nan where a line leaves one out."""

    name: str
    steps: F64
    losses: dict[str, F64]
    dev: dict[str, F64]


def read_log(file: Path) -> Run:
    """The log of one run; a last line that is still being written is left out."""
    try:
        lines = file.read_text("utf-8").splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read as a log of training ({error})") from error
    if lines and not lines[-1].endswith("\n"):
        lines.pop()
    rows = [_row(file, number, line) for number, line in enumerate(lines, 1)]
    if not rows:
        raise MissingDataError(f"needs judgements; {file} has none yet")
    steps = np.array([row["step"] for row in rows], np.float64)
    losses, dev = (series([row[key] for row in rows]) for key in ("losses", "dev"))
    return Run(file.resolve().parent.name, steps, losses, dev)


def series(rows: Sequence[dict[str, float]]) -> dict[str, F64]:
    """The values of every name over the rows, in the order in which names first appear."""
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: np.array([row.get(name, np.nan) for row in rows], np.float64) for name in names}


def draw_curves(subject: Subject) -> list[Sheet]:
    """A panel for each loss and each figure of dev, a line for each run."""
    if not subject.logs:
        raise MissingDataError("needs --log RUN/log.jsonl")
    runs = named_apart([read_log(file) for file in subject.logs])
    panels = [("losses", name) for name in dict.fromkeys(n for run in runs for n in run.losses)]
    panels += [("dev", name) for name in dict.fromkeys(n for run in runs for n in run.dev)]
    if not panels:
        raise MissingDataError("needs a log with losses or figures of dev")
    rows = -(-len(panels) // COLUMNS)
    figure = page(PANEL_HEIGHT * rows + 0.3)
    for axes, (kind, name) in zip(_grid(figure, rows, len(panels)), panels, strict=True):
        lines(axes, runs, kind, name)
    if len(runs) > 1:
        keys = [
            Line2D([], [], label=shown(run.name), **look(i, True)) for i, run in enumerate(runs)
        ]
        figure.legend(handles=keys, loc="outside upper center", ncols=4)
    return [Sheet("curves", "Training curves", figure)]


def lines(axes: Axes, runs: Sequence[Run], kind: str, name: str) -> None:
    """One series of every run that has it."""
    for number, run in enumerate(runs):
        values: dict[str, F64] = getattr(run, kind)
        if name in values:
            held = np.isfinite(values[name])
            often = 0.2 if held.sum() > 8 else None
            style = look(number, held.sum() < 2 or len(runs) > 1)
            axes.plot(
                run.steps[held], values[name][held], label=shown(run.name), markevery=often, **style
            )
    title = shown(f"{KINDS[kind]}: {name}".replace("_", " "), 2 * TITLE_WIDTH)
    axes.set_title("\n".join(wrap(title, TITLE_WIDTH)))
    axes.ticklabel_format(axis="x", style="plain")
    axes.locator_params(axis="x", nbins=4)
    axes.set_xlabel("step")
    grid(axes)


def look(number: int, marked: bool) -> dict[str, Any]:
    """The colour, the line and the marker of a run; a single point needs its marker to be seen."""
    marker = MARKERS[number % len(MARKERS)] if marked else None
    return dashes(number) | {"marker": marker, "markersize": 3}


def named_apart(runs: Sequence[Run]) -> list[Run]:
    """The runs, a number behind the name of each that is called as an earlier one."""
    seen: dict[str, int] = {}
    made = []
    for run in runs:
        seen[run.name] = seen.get(run.name, 0) + 1
        name = run.name if seen[run.name] == 1 else f"{run.name} ({seen[run.name]})"
        made.append(Run(name, run.steps, run.losses, run.dev))
    return made


def _grid(figure: Figure, rows: int, count: int) -> list[Axes]:
    panels = list(figure.subplots(rows, min(COLUMNS, count), squeeze=False).flat)
    for unused in panels[count:]:
        unused.remove()
    return panels[:count]


def _row(file: Path, number: int, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
        kept = {key: dict(row.get(key) or {}) for key in ("losses", "dev")}
        numbers = {key: {name: float(x) for name, x in kept[key].items()} for key in kept}
        return {"step": int(row["step"])} | numbers
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{file}:{number}: is no line of a training log ({error})") from error
