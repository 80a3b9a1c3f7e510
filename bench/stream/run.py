"""`newsift bench stream`: all rows interleaved in one run, and the tables made of them."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import encoder
from bench import machine
from bench.measure import NotAvailable, Say, percentile, ratio, spread
from bench.part import Part
from bench.stream.latency import latencies
from bench.stream.memory import memory
from bench.stream.rows import Measure, Measured, empty_row, encoder_row, worker_row
from bench.stream.scene import PARTITIONS, Scene, post_records, seed_records, threshold_for
from bench.stream.worker import running_worker
from bench.texts import read_articles, read_posts
from encoder.errors import InputError
from worker.cli.demo.process import free_port

PARTS = ("start", "speed", "latency", "memory")
SHARE = 0.02
POSTS = 98_304
FEW, MANY = 10, 12_704
RATE = 1_000  # posts a second, for the latency
SHARES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
MODEL = "default"


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """What the command line asks for."""

    kafka: str | None
    data: Path | None
    articles: Path | None
    posts: int
    rounds: int
    seconds: float
    memory_posts: int
    only: frozenset[str]

    def wants(self, part: str) -> bool:
        """Whether a part was asked for; the long one is measured only by name."""
        return part in self.only if self.only else part != "memory"


def measure_stream(options: StreamOptions, say: Say) -> list[Part]:
    """Measure everything asked for on the broker given, or on the embedded one."""
    odd = options.only - set(PARTS)
    if odd:
        raise InputError(f"--only: {', '.join(sorted(odd))} is no part; choose from {PARTS}")
    with broker(options.kafka) as kafka:
        stage = Stage(options, kafka, say)
        return [stage.where(), *(getattr(stage, part)() for part in filter(options.wants, PARTS))]


class Stage:
    """What every part is measured on: each sets its own scene on the one broker."""

    def __init__(self, options: StreamOptions, kafka: str, say: Say) -> None:
        self.options, self.kafka, self.say = options, kafka, say
        self.posts, self.source = read_posts(options.data, POSTS)
        self.articles = read_articles(options.articles or options.data, MANY)
        self.sets = sorted({min(FEW, len(self.articles)), len(self.articles)})
        with encoder.load(MODEL, device="cpu") as enc:
            self.cuts = {
                count: threshold_for(enc, self.posts, self.articles[:count], SHARE)
                for count in self.sets
            }

    def where(self) -> Part:
        """The machine, the broker and the texts."""
        counts = f"{len(self.posts):,} posts, {len(self.articles):,} articles"
        return Part.where(machine.describe() | {
            "broker": self.options.kafka or "the embedded one; a real Kafka by --kafka",
            "texts": f"{counts}: {self.source}",
            "matches": f"thresholds set so that {SHARE:.0%} of the posts match",
        })  # fmt: skip

    def start(self) -> Part:
        """From the start of the process to ready, and what it then holds."""
        scene = self._scene(self.sets)
        rows = []
        for count in self.sets:
            with running_worker(scene, seeds_of(count)) as worker:
                rows.append((f"{count:,} seeds", worker.wait_until_ready(), worker.resident()))
        return Part("start", "Start", ("start to ready", "seconds", "MB resident"), rows)

    def speed(self) -> Part:
        """Posts a second of every row, round by round."""
        scene, count = self._scene(self.sets), self.options.posts
        self.say(f"publishing {count:,} posts")
        scene.publish("posts", post_records(self.posts, count))
        rows = {"encoder: text → embeddings": encoder_row(MODEL, self.posts)}
        for seeds in self.sets:
            rows[f"worker, {seeds:,} seeds"] = worker_row(scene, seeds_of(seeds), count)
        rows["Faust's agent that does nothing"] = empty_row(scene, count)
        return speed_part(rounds_of(rows, self.options.rounds, self.say))

    def latency(self) -> Part:
        """From a post's timestamp to its match at a consumer."""
        seeds = self.sets[0]
        scene = self._scene([seeds])
        self.say(f"{RATE:,} posts a second")
        found = latencies(scene, seeds_of(seeds), self.posts, RATE, self.options.seconds)
        if not found:
            raise NotAvailable("no match came; give other posts with --data")
        title = f"Produce → match at {RATE:,} posts/s, {len(found):,} matches"
        values = [percentile(found, share) for share in SHARES.values()]
        return Part("latency", title, ("", *SHARES), [("ms", *values)])

    def memory(self) -> Part:
        """What the worker holds, and what a post costs it, after every tenth of many posts."""
        few, posts = self.sets[0], self.options.memory_posts
        scene = self._scene([few], {"retention.bytes": str(2**28), "segment.bytes": str(2**26)})
        found = memory(scene, seeds_of(few), self.posts, posts, self.say)
        _, held, cost = found[0]
        rows = [
            (at.posts, at.resident, at.resident / held, at.cost, at.cost / cost) for at in found
        ]
        header = ("posts", "MB resident", "× the first", "CPU µs a post", "× the first's")
        return Part("memory", "Memory and cost", header, rows)

    def _scene(self, sets: Sequence[int], limits: Mapping[str, str] | None = None) -> Scene:
        """New topics, and these sets of seeds on control topics of their own."""
        scene = Scene.fresh(self.kafka)
        for role in ("posts", "matches", "rejected"):
            scene.create(role, PARTITIONS, dict(limits or {}))
        for count in sets:
            self.say(f"publishing {count:,} seeds")
            scene.create(seeds_of(count), 1, {"cleanup.policy": "compact"})
            seeds = seed_records(self.articles[:count], self.cuts[count])
            scene.publish(seeds_of(count), seeds)
        return scene


def rounds_of(rows: Mapping[str, Measure], rounds: int, say: Say) -> dict[str, list[Measured]]:
    """Every row once a round; a row that cannot run ends the bench with its reason."""
    found: dict[str, list[Measured]] = {name: [] for name in rows}
    for i in range(rounds):
        for name, measure in rows.items():
            say(f"round {i + 1} of {rounds}: {name}")
            found[name].append(measure())
    return found


def speed_part(found: Mapping[str, list[Measured]]) -> Part:
    """The table of rates, with ratios to the encoder and to Faust's empty agent."""
    rates = {name: [one.rate for one in measured] for name, measured in found.items()}
    against = ("× encoder", "× empty agent")
    header = ("row", "posts/s", "lowest", "highest", *against, "CPU µs a post")
    first, *_, last = rates.values()
    rows = []
    for name, mine in rates.items():
        cpu = [one.cpu for one in found[name] if one.cpu is not None]
        ratios = ratio(mine, first), ratio(mine, last)
        rows.append((name, *spread(mine), *ratios, median(cpu) if cpu else None))
    return Part("speed", "Posts a second, the rows interleaved", header, rows)


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


def seeds_of(count: int) -> str:
    """The role of the control topic with so many seeds."""
    return f"seeds-{count}"
