"""The table and the curves of a soak, from its samples.

python -m tests.faults.soak_report DIR
"""
# ruff: noqa: T201 - a command that prints a table

import json
import sys
from collections import defaultdict
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

YOUNG_S = 300.0  # a worker fills its buffers so long
Curve = list[tuple[float, float]]  # seconds and megabytes


def report(folder: Path) -> str:
    """Write table.md and soak.svg; the table."""
    lines = (folder / "samples.jsonl").read_text("utf-8").splitlines()
    samples = [json.loads(line) for line in lines]
    result = json.loads((folder / "result.json").read_text("utf-8"))
    table = "\n".join(f"| {what} | {value} |" for what, value in rows(samples, result))
    table = f"| what | measured |\n| --- | --- |\n{table}\n"
    (folder / "table.md").write_text(table, "utf-8")
    draw(samples, folder / "soak.svg")
    return table


def rows(samples: list[dict[str, Any]], result: dict[str, Any]) -> list[tuple[str, str]]:
    lags = [row["lag"] for row in samples if "lag" in row]
    rates = [row["posts_s"] for row in samples if "posts_s" in row]
    pauses = [row["pause_s"] for row in samples]
    slopes = {
        name: slope(curve) for name, curve in lives(samples).items() if curve[-1][0] > 2 * YOUNG_S
    }
    fired = ", ".join(f"{kind} {count}" for kind, count in sorted(result["fired"].items()))
    return [
        ("seed, length", f"{result['seed']}, {result['seconds'] / 3600:.2f} h"),
        ("posts", f"{result['posts']:,}, {result['posts'] / result['seconds']:,.0f} a second"),
        ("faults that fired", fired),
        ("workers that ended by themselves", "; ".join(result["surprises"]) or "none"),
        ("posts that must come out", f"{result['expected']:,}"),
        ("missing", f"{result['missing']:,}"),
        ("wrong", f"{result['wrong']:,}"),
        ("twice (allowed)", f"{result['twice']:,} ({result['allowed']:,})"),
        ("committed a second: median, most", f"{median(rates):,.0f}, {max(rates):,.0f}"),
        ("lag: median, most", f"{median(lags):,.0f}, {max(lags):,}"),
        ("drained after the last post within", f"{result['drained_s']:.0f} s"),
        ("longest pause of a partition in 10 s: median, most",
         f"{median(pauses):.1f} s, {max(pauses):.1f} s"),
        *((f"memory of {name}", text) for name, text in slopes.items()),
    ]  # fmt: skip


def lives(samples: list[dict[str, Any]]) -> dict[str, Curve]:
    """Of each life of a worker, and of the desk, its memory by age."""
    result: dict[str, Curve] = defaultdict(list)
    for row in samples:
        for name, worker in row["workers"].items():
            result[name].append((worker["age_s"], worker["mb"]))
        result["the desk"].append((row["at"], row["desk_mb"]))
    return dict(sorted(result.items(), key=lambda item: -item[1][-1][0]))


def slope(curve: Curve) -> str:
    ages, sizes = np.array([point for point in curve if point[0] > YOUNG_S]).T
    grown, _ = np.polyfit(ages / 3600, sizes, 1)
    return (
        f"{grown:+.1f} MB an hour over {(ages[-1] - ages[0]) / 60:.0f} min; "
        f"at most {sizes.max():.0f} MB"
    )


def draw(samples: list[dict[str, Any]], file: Path) -> None:
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot as plt

    minutes = [row["at"] / 60 for row in samples]
    figure, (memory, rate, lag, pause) = plt.subplots(
        4, 1, figsize=(10, 11), sharex=True, layout="constrained"
    )
    curves: dict[str, Curve] = defaultdict(list)
    for row in samples:
        for name, worker in row["workers"].items():
            curves[name].append((row["at"] / 60, worker["mb"]))
    for name, curve in curves.items():
        memory.plot(*zip(*curve, strict=True), color=f"C{name.split('/')[0]}", linewidth=1)
    memory.plot(minutes, [row["desk_mb"] for row in samples], color="black", label="desk")
    for n in sorted({int(name.split("/")[0]) for name in curves}):
        memory.plot([], [], color=f"C{n}", label=f"worker {n}")
    memory.set_ylabel("resident, MB")
    memory.legend(loc="lower right", ncols=5)
    rate.plot(minutes, [row.get("posts_s") for row in samples], label="posts committed")
    rate.plot(minutes, [row["matches_s"] for row in samples], label="matches")
    rate.set_ylabel("a second")
    rate.legend(loc="upper right")
    lag.plot(minutes, [row.get("lag") for row in samples])
    lag.set_ylabel("lag, posts")
    pause.plot(minutes, [row["pause_s"] for row in samples])
    pause.set_ylabel("longest pause, s")
    pause.set_xlabel("minutes")
    for row in samples:
        for at, _ in row["faults"]:
            for axes in (memory, rate, lag, pause):
                axes.axvline(at / 60, color="red", alpha=0.15, linewidth=0.5)
    for axes in (memory, rate, lag, pause):
        axes.set_ylim(bottom=0)
    figure.savefig(file)


if __name__ == "__main__":
    print(report(Path(sys.argv[1])))
