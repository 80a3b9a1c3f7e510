"""The table and the curves of a soak, from its samples.

python -m tests.faults.soak_report DIR
"""
# ruff: noqa: T201 - a command that prints a table

import itertools
import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

YOUNG_S = 300.0  # a worker fills its buffers so long
SHORT_S = 900.0  # lives that are left out of the table
LONG_S = 3600.0  # lives in which memory may not grow
GROWN = 1.25  # times the memory of a life's first quarter
DESK = "the desk"
Row = dict[str, Any]
Curve = list[tuple[float, float]]  # seconds and megabytes


def report(folder: Path) -> str:
    """Write table.md and soak.svg; the table."""
    samples = read(folder)
    result = json.loads((folder / "result.json").read_text("utf-8"))
    cells = [("what", "measured"), ("---", "---"), *measured(samples, result)]
    table = "".join(f"| {what} | {value} |\n" for what, value in cells)
    (folder / "table.md").write_text(table, "utf-8")
    draw(samples, folder / "soak.svg")
    return table


def read(folder: Path) -> list[Row]:
    """The samples since the first post."""
    lines = (folder / "samples.jsonl").read_text("utf-8").splitlines()
    return [row for row in map(json.loads, lines) if row["sent"]]


def measured(samples: list[Row], result: Row) -> list[tuple[str, str]]:
    lags = [row["sent"] - row["committed"] for row in samples if row["committed"] is not None]
    pauses = [row["pause_s"] for row in samples]
    lives = curves(samples)
    assigned = {name: life["assigned"] for row in samples for name, life in row["workers"].items()}
    fired = ", ".join(
        f"{kind} ({result['fired'][kind]} of {tried})"
        for kind, tried in sorted(result["tried"].items())
    )
    fastest = max(rate for _, rate in rates(samples, "committed"))
    slopes = [(name, life) for name, life in lives.items() if life[-1][0] - life[0][0] > SHORT_S]
    return [
        ("seed", str(result["seed"])),
        ("length", f"{result['seconds'] / 3600:.2f} h"),
        ("posts", f"{result['posts']:,}, {result['posts'] / result['seconds']:,.0f} a second"),
        ("faults that fired", fired),
        ("pages that the desk answered", f"{result['fired']['the desk answered']:,}"),
        ("starts of workers", f"{len(lives) - 1}"),
        ("workers that ended by themselves", "; ".join(result["surprises"]) or "none"),
        ("assignments of partitions to a worker", f"{sum(assigned.values())}"),
        ("posts that must come out", f"{result['expected']:,}"),
        ("missing", f"{result['missing']:,}"),
        ("wrong", f"{result['wrong']:,}"),
        ("twice (allowed)", f"{result['twice']:,} ({result['allowed']:,})"),
        ("most posts a second over 10 s", f"{fastest:,.0f}"),
        ("lag: median, most", f"{median(lags):,.0f}, {max(lags):,}"),
        ("drained after the last post within", f"{result['drained_s']:.0f} s"),
        ("time without a match of some partition: median, most",
         f"{median(pauses):.1f} s, {max(pauses):.1f} s"),
        *((f"memory of {name}", slope(life)) for name, life in slopes),
    ]  # fmt: skip


def rates(samples: list[Row], what: str) -> Curve:
    rows = [row for row in samples if row[what] is not None]
    return [
        (late["at"], (late[what] - early[what]) / (late["at"] - early["at"]))
        for early, late in itertools.pairwise(rows)
    ]


def curves(samples: list[Row]) -> dict[str, Curve]:
    """The memory over each life of a worker and of the desk, the longest first."""
    result: dict[str, Curve] = defaultdict(list)
    for row in samples:
        for name, life in row["workers"].items():
            result[name].append((row["at"], life["mb"]))
        result[DESK].append((row["at"], row["desk_mb"]))
    return dict(sorted(result.items(), key=lambda item: item[1][0][0] - item[1][-1][0]))


def growth(lives: dict[str, Curve]) -> list[str]:
    """The long lives that needed more memory in their last quarter than in their first."""
    result = []
    for name, life in lives.items():
        sizes, quarter = [size for _, size in life], len(life) // 4
        if life[-1][0] - life[0][0] >= LONG_S:
            early, late = max(sizes[:quarter]), max(sizes[-quarter:])
            if late > GROWN * early:
                result.append(f"{name} grew from {early:.0f} to {late:.0f} MB")
    return result


def slope(life: Curve) -> str:
    """By least squares, without the time in which the process was young."""
    times, sizes = np.array([point for point in life if point[0] > life[0][0] + YOUNG_S]).T
    grown, _ = np.polyfit(times / 3600, sizes, 1)
    minutes = (times[-1] - times[0]) / 60
    return f"{grown:+.1f} MB an hour over {minutes:.0f} min, at most {sizes.max():.0f} MB"


def draw(samples: list[Row], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    figure, (memory, rate, lag, pause) = plt.subplots(
        4, 1, figsize=(10, 11), sharex=True, layout="constrained"
    )
    labels = set[str]()
    for name, life in curves(samples).items():
        label = name.split(".")[0]
        color = "black" if name == DESK else f"C{label[-1]}"
        memory.plot(*minutes(life), color=color, label="" if label in labels else label)
        labels.add(label)
    memory.set_ylabel("resident, MB")
    for what in ("sent", "committed", "matches"):
        rate.plot(*minutes(rates(samples, what)), label=what)
    rate.set_ylabel("a second")
    rate.set_yscale("log")
    rows = [row for row in samples if row["committed"] is not None]
    lag.plot(*minutes([(row["at"], row["sent"] - row["committed"]) for row in rows]))
    lag.set_ylabel("lag, posts")
    pause.plot(*minutes([(row["at"], row["pause_s"]) for row in samples]))
    pause.set_ylabel("pause, s")
    pause.set_xlabel("minutes; a red line is a fault")
    for axes in (memory, rate, lag, pause):
        for at, _ in itertools.chain.from_iterable(row["faults"] for row in samples):
            axes.axvline(at / 60, color="red", alpha=0.2, linewidth=0.5)
    for axes in (memory, rate):
        axes.legend(loc="lower right", ncols=5)
    figure.savefig(file)


def minutes(curve: Curve) -> tuple[list[float], list[float]]:
    return [at / 60 for at, _ in curve], [value for _, value in curve]


if __name__ == "__main__":
    print(report(Path(sys.argv[1])))
