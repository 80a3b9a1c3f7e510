"""Partitions, workers, cores and memory for a stream, from the measured costs of a post."""

from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path
from typing import Annotated

import msgspec

from encoder.errors import InputError
from encoder.support.files import read_regular

DEFAULT_COSTS_FILE = Path(__file__).with_name("costs.json")
MAX_COSTS_BYTES = 65_536
REMEDY = "`newsift bench costs --out FILE` writes such a file"

FIRST_SEEDS = 1_000
TARGET_LOAD = 0.7  # At the planned rate a worker uses this share of its capacity.
MAX_THREADS = 8
MIN_PARTITIONS = 4
PARTITIONS_PER_WORKER = 2  # The number of workers can double without new partitions.
MEMORY_FACTOR = 1.25  # A worker gets a quarter more memory than was measured.
MEMORY_STEP_MB = 64
BURST_S = 600
MAX_RATE = 1e9
MAX_SEEDS = 10_000_000
MAX_BURST_FACTOR = 1_000.0

Cost = Annotated[float, msgspec.Meta(ge=0, le=1e9)]
Positive = Annotated[float, msgspec.Meta(gt=0, le=1e9)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Line = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]


class Costs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Measured on one machine."""

    machine: Line
    date: Line
    command: Line
    posts: Line  # a description of the posts
    share: Share  # of the posts that match
    python_us: Positive  # CPU of a post that only one thread of a worker can spend at a time
    encode_us: Cost  # CPU of a post: on all threads
    match_ns: Cost  # CPU of a post for each of the first seeds: on all threads
    more_match_ns: Cost  # for each seed beyond FIRST_SEEDS, which share an index
    matched_us: Cost  # CPU of a post that matches, in addition: one thread at a time
    start_s: Cost  # CPU of a worker until it is ready
    start_ms: Cost  # for each seed, in addition
    memory_mb: Positive  # peak of a worker under full load
    memory_kb: Cost  # for each seed, in addition
    post_bytes: Positive  # of a post
    packed_post_bytes: Positive  # compressed, in a batch with others
    packed_match_bytes: Positive  # of a match record, likewise

    def with_share(self, share: float) -> "Costs":
        check_number("share", share, share >= 0, 1, "the share of the posts that match, from 0")
        return msgspec.structs.replace(self, share=share)

    def serial_us(self) -> float:
        """CPU of a post that only one thread of a worker can spend at a time."""
        return self.python_us + self.share * self.matched_us

    def cpu_us(self, seeds: int) -> float:
        """CPU of a post on all threads."""
        first = min(seeds, FIRST_SEEDS)
        match_ns = first * self.match_ns + (seeds - first) * self.more_match_ns
        return self.serial_us() + self.encode_us + match_ns / 1e3

    def start_cpu_s(self, seeds: int) -> float:
        return self.start_s + seeds * self.start_ms / 1e3

    def peak_mb(self, seeds: int) -> float:
        return self.memory_mb + seeds * self.memory_kb / 1e3

    def worker_rate(self, seeds: int, threads: int) -> float:
        """Posts a second."""
        return 1e6 / max(self.serial_us(), self.cpu_us(seeds) / threads)


def read_costs(file: Path | None = None) -> Costs:
    """The shipped costs without a file."""
    file = file or DEFAULT_COSTS_FILE
    try:
        return msgspec.json.decode(read_regular(file, MAX_COSTS_BYTES), type=Costs)
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); {REMEDY}") from None
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        name = f"{where.rstrip('`')}: " if where else ""
        raise InputError(f"{file}: {name}{problem}; {REMEDY}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"{file}: bad JSON ({error}); {REMEDY}") from None


@dataclass(frozen=True, slots=True)
class LoadBurst:
    """`factor` times the usual rate for `BURST_S` seconds."""

    factor: float
    drain: float | None = None  # seconds after its end within which no post waits any more

    def capacity(self, rate: float) -> float:
        """The posts a second that drain the burst in time."""
        if self.drain is None:
            return 0.0
        return rate * (self.factor * BURST_S + self.drain) / (BURST_S + self.drain)


class BurstLag(msgspec.Struct, frozen=True):
    lag: float  # posts that wait at its end
    delay_s: float  # of the post that waits longest
    drain_s: float  # from its end until no post waits


def burst_lag(rate: float, factor: float, capacity: float) -> BurstLag:
    """The queue of posts that a burst leaves. The capacity is above the rate, so that it ends."""
    lag = BURST_S * max(0.0, factor * rate - capacity)
    return BurstLag(lag, lag / capacity, lag / (capacity - rate))


class Plan(msgspec.Struct, frozen=True):
    """The keys of `newsift plan --json`."""

    rate: float  # posts a second
    seeds: int
    partitions: int  # of the topic of posts
    workers: int
    threads: int  # of a worker (model.threads)
    cores: int  # all workers together
    worker_rate: float  # posts a second that one worker can do
    cpu_us: float  # of a post under full load, all threads together
    memory_mb: int  # of a worker
    memory_total_mb: int
    network_in_mb_s: float  # posts, compressed
    network_in_unpacked_mb_s: float
    network_out_mb_s: float  # matches, compressed
    matches_s: float  # match records a second
    start_cpu_s: float  # of a worker until it is ready
    burst: BurstLag | None


def plan_capacity(costs: Costs, rate: float, seeds: int, burst: LoadBurst | None = None) -> Plan:
    """The fewest workers that do the rate at `TARGET_LOAD`, and drain the burst."""
    check_number("rate", rate, rate > 0, MAX_RATE, "posts a second, above 0")
    check_number("seeds", seeds, seeds >= 0, MAX_SEEDS, "a whole number from 0")
    if burst:
        factor, rule = burst.factor, "how many times the rate, from 1"
        check_number("burst", factor, factor >= 1, MAX_BURST_FACTOR, rule)
        if burst.drain is not None:
            check_number("drain", burst.drain, burst.drain > 0, MAX_RATE, "seconds, above 0")
    costs = costs if seeds else costs.with_share(0)
    cpu = costs.cpu_us(seeds)
    min_rate = max(rate / TARGET_LOAD, burst.capacity(rate) if burst else 0.0)
    threads = min(MAX_THREADS, ceil(min_rate * cpu / 1e6), max(1, int(cpu / costs.serial_us())))
    worker_rate = costs.worker_rate(seeds, threads)
    workers = ceil(min_rate / worker_rate)
    at_burst = ceil(burst.factor * rate / worker_rate) if burst else 0
    shares = ceil(max(PARTITIONS_PER_WORKER * workers, at_burst, MIN_PARTITIONS) / workers)
    memory = MEMORY_FACTOR * costs.peak_mb(seeds)
    memory_mb = MEMORY_STEP_MB * ceil(memory / MEMORY_STEP_MB)
    matches = rate * costs.share
    return Plan(
        rate=rate,
        seeds=seeds,
        partitions=shares * workers,
        workers=workers,
        threads=threads,
        cores=workers * threads,
        worker_rate=worker_rate,
        cpu_us=cpu,
        memory_mb=memory_mb,
        memory_total_mb=memory_mb * workers,
        network_in_mb_s=rate * costs.packed_post_bytes / 1e6,
        network_in_unpacked_mb_s=rate * costs.post_bytes / 1e6,
        network_out_mb_s=matches * costs.packed_match_bytes / 1e6,
        matches_s=matches,
        start_cpu_s=costs.start_cpu_s(seeds),
        burst=burst_lag(rate, burst.factor, workers * worker_rate) if burst else None,
    )


def check_number(name: str, value: float, fits: bool, most: float, rule: str) -> None:
    if not (isfinite(value) and fits and value <= most):
        raise InputError(
            f"{name}: {value:g} cannot be planned for; give {rule}, at most {most:,.0f}"
        )
