"""The tables of `newsift bench encoder`, made of what was measured."""

from collections.abc import Mapping, Sequence
from typing import Any

from bench.encoder.accuracy import Deviation
from bench.encoder.rows import REFERENCES, ROWS
from bench.encoder.start import Start
from bench.measure import Rates, RowKey, Spread, percentile, ratios
from bench.part import Part, number


def speed(rates: Rates, absent: Mapping[RowKey, str]) -> Part:
    """The median of the rounds, their range, and the ratios to the references beside it."""
    header = ("row", "threads", "posts/s", "lowest – highest", *REFERENCES.values())
    shown: list[tuple[str, ...]] = []
    data: list[dict[str, Any]] = []
    for (name, threads), found in rates.items():
        title, spread = ROWS[name].name, Spread.of(found)
        against = {
            told: ratios(found, rates.get((r, threads), [])) for r, told in REFERENCES.items()
        }
        told = {key: ratio and ratio._asdict() for key, ratio in against.items()}
        row = {"row": f"{name}/{threads}", "name": title, "rates": found, "ratios": told}
        data.append(row | spread._asdict())
        shown.append((
            title, str(threads), number(spread.median),
            f"{number(spread.low)} – {number(spread.high)}",
            *(number(ratio.median) if ratio else "" for ratio in against.values()),
        ))  # fmt: skip
    data += [{"row": f"{name}/{threads}", "absent": why} for (name, threads), why in absent.items()]
    remarks = [f"{ROWS[name].name}, {threads}: {why}" for (name, threads), why in absent.items()]
    return Part("posts", "Posts", header, shown, data, remarks)


def single(seconds: Sequence[float]) -> Part:
    """How long a post alone takes."""
    shares = {"p50 ms": 0.5, "p99 ms": 0.99}
    values = {name: 1e3 * percentile(seconds, share) for name, share in shares.items()}
    row = ("whole encoder", *map(number, values.values()), f"{len(seconds):,}")
    return Part("single", "One post alone, 1 thread", ("", *values, "posts"), [row], values)


def start(found: Sequence[Start]) -> Part:
    """The start of a fresh process: medians."""
    columns = {
        "process start to loaded model, s": "load",
        "process start to first embedding, s": "first",
        "CPU time of all threads until then, s": "cpu",
        "resident memory then, MB": "resident",
        "peak memory, MB": "peak",
    }
    rows = [
        (name, number(Spread.of([getattr(one, column) for one in found]).median))
        for name, column in columns.items()
    ]
    rows += [("torch imported", "yes" if found[0].torch else "no"), ("path", found[0].path)]
    title = f"Start, warm cache, median of {len(found)}"
    return Part("start", title, ("", "fresh process"), rows, [one._asdict() for one in found])


def errors(found: Sequence[Deviation], posts: int) -> Part:
    """The largest errors of every path against float64."""
    header = ("path", "embedding, relative", "score")
    rows = [(x.path, f"{x.embedding:.1e}", f"{x.score:.1e}") for x in found]
    title = f"Largest error against float64, {posts} posts and all their pairs"
    return Part("errors", title, header, rows, [x._asdict() for x in found])
