"""`newsift bench encoder`: all rows in one interleaved run, and the tables made of them."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from bench import parts
from bench.accuracy import deviations
from bench.latency import latencies
from bench.measure import NotAvailable, Rates, Row, Run, interleave
from bench.parts import Part
from bench.posts import Counts, read_texts
from bench.rows import SECTIONS, all_rows
from bench.startup import starts
from bench.workload import Workload
from encoder.errors import InputError

Say = Callable[[str], None]
PARTS = ("batches", "floor", "start", "errors")


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    data: Path | None = None
    articles: Path | None = None
    model: str = "default"
    counts: Counts = field(default_factory=Counts)
    rounds: int = 7
    seconds: float = 200.0
    threads: tuple[int, ...] = (1, 2)
    peer_posts: int = 256
    batch_seconds: float = 1.5
    starts: int = 3
    checked: int = 200
    only: frozenset[str] = frozenset()

    def wants(self, name: str) -> bool:
        """Whether a row or part was asked for by name, or nothing was."""
        return not self.only or name in self.only


QUICK = Options(
    counts=Counts(16_384, 512, 8_192, 128),
    rounds=2,
    seconds=12.0,
    peer_posts=64,
    batch_seconds=0.2,
    starts=1,
    checked=30,
)


def bench(options: Options, say: Say) -> list[Part]:
    """Measure everything asked for, the rows interleaved, the other parts after them."""
    rows = chosen(options)
    texts = read_texts(options.data, options.articles, options.counts)
    work = Workload(texts, options.model, options.threads, options.peer_posts)
    rates, absent = measured(work, rows, options, say)
    made = [parts.where(work)]
    for section in SECTIONS:
        mine = [row for row in rows if row.section == section.key]
        if mine:
            made.append(parts.speed(section, mine, rates, absent))
    return made + the_rest(work, rates, options, say)


def chosen(options: Options) -> list[Row[Workload]]:
    """The rows asked for; a name that is neither a row nor a part is refused."""
    rows = all_rows(options.threads)
    known = {row.stem for row in rows} | set(PARTS)
    odd = options.only - known
    if odd:
        names = ", ".join(sorted(known))
        raise InputError(f"--only: {', '.join(sorted(odd))} is no row; choose from {names}")
    return [row for row in rows if options.wants(row.stem)]


def measured(
    work: Workload, rows: list[Row[Workload]], options: Options, say: Say
) -> tuple[Rates, dict[str, str]]:
    """The rates of every row that runs here, and the reason for every row that does not."""
    runs: dict[str, Run] = {}
    absent: dict[str, str] = {}
    for row in rows:
        say(f"preparing {row.key}")
        try:
            runs[row.key] = row.prepare(work, row.threads)
        except NotAvailable as error:
            absent[row.key] = str(error)
    present = [row for row in rows if row.key in runs]
    slot = options.seconds / max(1, len(present) * (options.rounds + 1))
    return interleave(present, runs, options.rounds, slot, say), absent


def the_rest(work: Workload, rates: Rates, options: Options, say: Say) -> list[Part]:
    """The parts that are no rates: batch sizes, the floor, the start and the errors."""
    thread, posts = min(options.threads), options.checked
    makers: dict[str, Callable[[], Part]] = {
        "batches": lambda: parts.batches(
            latencies(work, ("whole", "kernel"), thread, options.batch_seconds, say), thread
        ),
        "floor": lambda: parts.floor(work, rates),
        "start": lambda: parts.start(starts(options.model, options.starts)),
        "errors": lambda: parts.errors(deviations(work, posts), posts),
    }
    made = []
    for name in filter(options.wants, PARTS):
        say(f"part: {name}")
        try:
            made.append(makers[name]())
        except NotAvailable as error:
            made.append(Part(name, f"No {name}", (), [(str(error),)], {"absent": str(error)}))
    return made
