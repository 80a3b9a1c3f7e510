"""The tables of `newsift bench encoder`, made of what was measured."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bench import machine
from bench.accuracy import Deviation
from bench.floor import PAIRS, mean_work
from bench.latency import Latency
from bench.measure import Rates, Row, Spread, keyed, ratios
from bench.rows import Section
from bench.startup import Start
from bench.table import number, table
from bench.workload import Workload


@dataclass(frozen=True, slots=True)
class Part:
    """One finished table, as text and as data; without a header, plain lines."""

    key: str
    title: str
    header: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    data: Any
    remarks: tuple[str, ...] = ()

    def render(self) -> str:
        """The title, the table and what is to be said about it."""
        shown = table(self.header, self.rows) if self.header else "\n".join(r[0] for r in self.rows)
        return "\n".join([self.title, "", shown, *self.remarks])


def where(work: Workload) -> Part:
    """The machine, the texts and the model."""
    held, texts = work.loaded.model.weights, work.texts
    mean = [number(float(np.diff(work.posts.offsets).mean())) + " a post"]
    if texts.articles:
        mean.append(number(float(np.diff(work.articles.offsets).mean())) + " an article")
    counts = f"{len(texts.posts):,} posts, {len(texts.articles):,} articles"
    earlier = f"{len(texts.earlier_posts):,} posts, {len(texts.earlier_articles):,} articles"
    facts = machine.describe() | {
        "texts": f"{counts}: {texts.source}",
        "read before": f"{earlier}, others than these",
        "mean tokens": ", ".join(mean),
        "model": f"{work.model}: vocabulary {len(held.embedding):,}, path {work.loaded.path}",
    }
    lines = [(f"{key}: {value}",) for key, value in facts.items()]
    return Part("where", "Where and on what", (), lines, facts)


def speed(
    section: Section, rows: Sequence[Row[Workload]], rates: Rates, absent: Mapping[str, str]
) -> Part:
    """Rates of one section: the median of the rounds, their range, and the ratios beside it."""
    header = ("row", "threads", "rate", "lowest – highest", *(n for _, n in section.references))
    shown: list[tuple[str, ...]] = []
    data = []
    for row in rows:
        found: dict[str, Any] = {"row": row.key, "name": row.name, "unit": row.unit}
        if row.key in absent:
            shown.append((f"{row.name}, {row.threads}: {absent[row.key]}",))
            found["absent"] = absent[row.key]
        else:
            spread = Spread.of(rates[row.key])
            against = {
                name: ratios(rates, row.key, keyed(stem, row.threads))
                for stem, name in section.references
            }
            shown.append(_rate(row, spread, list(against.values())))
            found |= {"rates": rates[row.key], **asdict(spread)}
            found["ratios"] = {name: r and asdict(r) for name, r in against.items()}
        data.append(found)
    return Part(section.key, section.title, header, shown, data)


def batches(found: Sequence[Latency], threads: int) -> Part:
    """Latency and rate by size of batch."""
    header = ("path", "posts a batch", "p50 ms", "p99 ms", "posts/s at p50", "batches")
    rows = [
        (
            x.path,
            f"{x.size:,}",
            number(1e3 * x.p50),
            number(1e3 * x.p99),
            number(x.size / x.p50),
            f"{x.batches:,}",
        )
        for x in sorted(found, key=lambda x: x.path, reverse=True)
    ]
    title = f"Batch sizes, {threads} thread{'s' if threads > 1 else ''}"
    remarks = ("Texts whose words it has read before.",)
    return Part("batches", title, header, rows, [asdict(x) for x in found], remarks)


def floor(work: Workload, rates: Rates) -> Part:
    """The floor of the mean post, and how far above it the kernel stands."""
    config = work.plain.config
    cost = mean_work(config, work.posts.offsets, work.support)
    data: dict[str, float] = {
        "KB of table rows a post": cost.bytes / 1e3,
        "thousand multiply-adds a post": cost.multiply_adds / 1e3,
        "entries above zero in a ring row": work.support.ring,
        "entries above zero in the star's row": work.support.star,
    }
    medians = {stem: Spread.of(v).median for stem, v in rates.items() if v}
    read, product, kernel = (medians.get(keyed(s, 1)) for s in ("touch", "multiply", "kernel"))
    if read and product:
        seconds = {
            "µs to read the rows": 1 / read,
            "µs to multiply and add": cost.multiply_adds / (PAIRS * product),
        }
        least = max(seconds.values())
        data |= {name: 1e6 * t for name, t in seconds.items()}
        data["the floor, posts/s"] = 1 / least
        if kernel:
            data["the kernel, posts/s"] = kernel
            data["the kernel's share of the floor, %"] = 100 * kernel * least
    remarks = (
        "The floor is the longer of two times. Reading: measured, the same ids, memory as large as",
        "the tables. Multiplying: at twice the rate of a 32-bit matrix product, as 16-bit pairs.",
    )
    rows = [(name, number(value)) for name, value in data.items()]
    return Part("floor", "The floor, 1 thread", ("", "mean post"), rows, data, remarks)


def start(found: Sequence[Start]) -> Part:
    """The start of a fresh process: medians."""
    columns = ("load", "first", "cpu", "resident", "peak")
    middle = {c: Spread.of([getattr(s, c) for s in found]).median for c in columns}
    rows = [
        ("process start to loaded model, s", number(middle["load"])),
        ("process start to first embedding, s", number(middle["first"])),
        ("CPU time of all threads until then, s", number(middle["cpu"])),
        ("resident memory then, MB", number(middle["resident"])),
        ("peak memory, MB", number(middle["peak"])),
        ("torch imported", "yes" if any(s.torch for s in found) else "no"),
        ("path", found[0].path),
    ]
    title = f"Start, warm cache, median of {len(found)}"
    return Part("start", title, ("", "fresh process"), rows, [asdict(s) for s in found])


def errors(found: Sequence[Deviation | tuple[str, str]], posts: int) -> Part:
    """The largest errors of every path against float64."""
    header = ("path", "embedding, relative", "score")
    rows: list[tuple[str, ...]] = []
    for x in found:
        if isinstance(x, Deviation):
            rows.append((x.path, f"{x.embedding:.1e}", f"{x.score:.1e}"))
        else:
            rows.append((f"{x[0]}: {x[1]}",))
    title = f"Largest error against float64, {posts} posts and all their pairs"
    data = [
        asdict(x) if isinstance(x, Deviation) else {"path": x[0], "absent": x[1]} for x in found
    ]
    return Part("errors", title, header, rows, data)


def _rate(row: Row[Workload], spread: Spread, against: Sequence[Spread | None]) -> tuple[str, ...]:
    return (
        row.name,
        str(row.threads),
        f"{number(spread.median)} {row.unit}",
        f"{number(spread.low)} – {number(spread.high)}",
        *(number(r.median) if r else "" for r in against),
    )
