"""`newsift bench stream`: all rows interleaved in one run, and the tables made of them."""

import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import encoder
from bench import machine
from bench.measure import NotAvailable, Spread, percentile
from bench.parts import Part
from bench.posts import Counts, Texts, read_texts
from bench.stream.latency import latencies
from bench.stream.memory import memory
from bench.stream.rows import Measure, Measured, empty_row, encoder_row, worker_row
from bench.stream.scene import PARTITIONS, Scene, post_records, seed_records, threshold_for
from bench.stream.worker import Worker
from bench.table import number
from encoder.errors import InputError
from worker.cli.demo.process import free_port

Say = Callable[[str], None]
PARTS = ("start", "speed", "latency", "memory")
SHARE = 0.02
FEW, MANY = 10, 12_704


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    kafka: str | None = None
    data: Path | None = None
    articles: Path | None = None
    model: str = "default"
    posts: int = 200_000
    rounds: int = 3
    rate: int = 1_000
    seconds: float = 30.0
    memory_posts: int = 10_000_000
    only: frozenset[str] = frozenset()

    def wants(self, part: str) -> bool:
        """Whether a part was asked for; the long one is measured only by name."""
        return part in self.only if self.only else part != "memory"


def bench(options: Options, say: Say) -> list[Part]:
    """Measure everything asked for on the broker given, or on the embedded one."""
    odd = options.only - set(PARTS)
    if odd:
        raise InputError(f"--only: {', '.join(sorted(odd))} is no part; choose from {PARTS}")
    texts = read_texts(options.data, options.articles, Counts(98_304, MANY, 1, 1))
    with broker(options.kafka) as kafka, tempfile.TemporaryDirectory() as folder:
        stage = Stage(options, texts, kafka, Path(folder), say)
        made = [where(options, texts)]
        makers = (stage.start, stage.speed, stage.latency, stage.memory)
        for part, make in zip(PARTS, makers, strict=True):
            if options.wants(part):
                made.append(make())
        return made


@dataclass
class Stage:
    """What every part is measured on: each sets its own scene on the one broker."""

    options: Options
    texts: Texts
    kafka: str
    folder: Path
    say: Say

    def __post_init__(self) -> None:
        enc = encoder.load(self.options.model, device="cpu")
        articles = self.texts.articles
        self.sets = sorted({min(FEW, len(articles)), len(articles)})
        self.cuts = {
            count: threshold_for(enc, self.texts.posts, articles[:count], SHARE)
            for count in self.sets
        }

    def start(self) -> Part:
        """From the start of the process to ready, and what it then holds."""
        scene = self._scene(self.sets)
        rows = []
        for count in self.sets:
            for kind in ("made", "on disk"):
                group = f"{scene.name}-start-{count}-{kind[:4]}"
                with Worker(scene, seeds_of(count), group, self.folder) as worker:
                    took = number(worker.wait_until_ready())
                    rows.append(
                        (f"{count:,} seeds, vectors {kind}", took, number(worker.resident()))
                    )
        return Part("start", "Start", ("start to ready", "seconds", "MB resident"), rows, rows)

    def speed(self) -> Part:
        """Posts a second of every row, round by round."""
        scene, count = self._scene(self.sets), self.options.posts
        self.say(f"publishing {count:,} posts")
        scene.publish("posts", post_records(self.texts.posts, count))
        alone = encoder_row(self.options.model, self.texts.posts, self.folder)
        rows: dict[str, Measure] = {"encoder: text → embeddings": alone}
        for seeds in self.sets:
            rows[f"worker, {seeds:,} seeds"] = worker_row(scene, seeds_of(seeds), count)
        rows["Faust's agent that does nothing"] = empty_row(scene, count)
        return speed_part(rounds_of(rows, self.options.rounds, self.say))

    def latency(self) -> Part:
        """From a post's timestamp to its match at a consumer."""
        rate, few = self.options.rate, self.sets[0]
        self.say(f"{rate:,} posts a second")
        found = latencies(
            self._scene([few]), seeds_of(few), self.texts.posts, rate, self.options.seconds
        )
        if not found:
            raise NotAvailable("no match came; give other posts with --data")
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
        values = {name: percentile(found, share) for name, share in shares.items()}
        title = f"Produce → match at {rate:,} posts/s, {len(found):,} matches"
        row = ("ms", *(number(value) for value in values.values()))
        return Part("latency", title, ("", *values), [row], values)

    def memory(self) -> Part:
        """What the worker holds, and what a post costs it, after every tenth of many posts."""
        few = self.sets[0]
        scene = self._scene([few], {"retention.bytes": str(2**28), "segment.bytes": str(2**26)})
        found = memory(scene, seeds_of(few), self.texts.posts, self.options.memory_posts, self.say)
        first = found[0]
        rows = [
            (
                *(f"{at.posts:,}", number(at.resident), f"{at.resident / first.resident:.3f}"),
                *(number(at.cost), f"{at.cost / first.cost:.3f}"),
            )
            for at in found
        ]
        header = ("posts", "MB resident", "× the first", "CPU µs a post", "× the first")
        return Part("memory", "Memory and cost", header, rows, found)

    def _scene(self, sets: list[int], limits: dict[str, str] | None = None) -> Scene:
        """New topics, and these sets of seeds on control topics of their own."""
        scene = Scene.fresh(self.kafka)
        for role in ("posts", "matches", "rejected"):
            scene.create(role, PARTITIONS, limits or {})
        for count in sets:
            self.say(f"publishing {count:,} seeds")
            scene.create(seeds_of(count), 1, {"cleanup.policy": "compact"})
            seeds = seed_records(self.texts.articles[:count], self.cuts[count])
            scene.publish(seeds_of(count), seeds)
        return scene


def rounds_of(rows: dict[str, Measure], rounds: int, say: Say) -> dict[str, list[Measured]]:
    """Every row once a round; a row that cannot run ends the bench with its reason."""
    found: dict[str, list[Measured]] = {name: [] for name in rows}
    for i in range(rounds):
        for name, measure in rows.items():
            say(f"round {i + 1} of {rounds}: {name}")
            found[name].append(measure())
    return found


def speed_part(found: dict[str, list[Measured]]) -> Part:
    """The table of rates, with ratios to the encoder and to Faust's empty agent."""
    names = list(found)
    header = ("row", "posts/s", "lowest – highest", "× encoder", "× empty agent", "CPU µs a post")
    rows = []
    for name, measured in found.items():
        spread = Spread.of([one.rate for one in measured])
        against = [ratio(measured, found[other]) for other in (names[0], names[-1])]
        cpu = [one.cpu for one in measured if one.cpu is not None]
        rows.append((
            name, number(spread.median), f"{number(spread.low)} – {number(spread.high)}",
            *against, number(Spread.of(cpu).median) if cpu else "",
        ))  # fmt: skip
    data = {name: [one.rate for one in measured] for name, measured in found.items()}
    return Part("speed", "Posts a second, the rows interleaved", header, rows, data)


def ratio(mine: list[Measured], other: list[Measured]) -> str:
    """How many times as fast, round by round, the median of it."""
    pairs = zip(mine, other, strict=True)
    return f"{Spread.of([a.rate / b.rate for a, b in pairs]).median:.2f}"


def where(options: Options, texts: Texts) -> Part:
    """The machine, the broker and the texts."""
    facts = machine.describe() | {
        "broker": options.kafka or "the embedded one; a real Kafka by --kafka",
        "texts": f"{len(texts.posts):,} posts, {len(texts.articles):,} articles: {texts.source}",
        "matches": f"thresholds set so that {SHARE:.0%} of the posts match",
    }
    lines = [(f"{key}: {value}",) for key, value in facts.items()]
    return Part("where", "Where and on what", (), lines, facts)


@contextmanager
def broker(address: str | None) -> Iterator[str]:
    """The broker named, or the embedded one in a process of its own."""
    if address is not None:
        yield address
        return
    port = free_port()
    command = [sys.executable, "-c", "from worker.cli import main; main()"]
    process = subprocess.Popen([*command, "broker", "--port", str(port)], stdout=subprocess.DEVNULL)
    try:
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def wait_for(port: int, seconds: float = 30) -> None:
    """Wait until something listens there."""
    until = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                raise NotAvailable(f"the broker did not start within {seconds:g} s") from None
            time.sleep(0.05)
        else:
            return


def seeds_of(count: int) -> str:
    """The role of the control topic with so many seeds."""
    return f"seeds-{count}"
