"""The rows of the stream: each measures posts a second once, on the same posts."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.measure import NotAvailable
from bench.stream.scene import Scene
from bench.stream.worker import WatchedWorker, running_worker
from bench.texts import ROOT
from worker.cli.demo.process import faust

EMPTY_POSTS = 40_000
PATIENCE = 900.0
ENCODE = """
import json, sys, time
import encoder
texts = json.load(sys.stdin)
enc = encoder.load(sys.argv[1], device="cpu")
enc.posts(texts[:2000])
began = time.perf_counter()
for start in range(2000, len(texts), 1024):
    enc.posts(texts[start : start + 1024])
print((len(texts) - 2000) / (time.perf_counter() - began))
"""


class Measured(NamedTuple):
    """Posts a second, and where it is known the microseconds of CPU for a post."""

    rate: float
    cpu: float | None = None


Measure = Callable[[], Measured]


def encoder_row(model: str, texts: Sequence[str]) -> Measure:
    """Text to embeddings in a fresh process, on all cores, without any Kafka."""

    def measure() -> Measured:
        done = subprocess.run(
            [sys.executable, "-c", ENCODE, model], input=json.dumps(list(texts)),
            cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise NotAvailable(f"the encoder failed: {done.stderr.strip().splitlines()[-1]}")
        return Measured(float(done.stdout))

    return measure


def worker_row(scene: Scene, seeds: str, posts: int) -> Measure:
    """The worker from its first commit to its last, over all posts of the topic."""

    def measure() -> Measured:
        with running_worker(scene, seeds) as worker:
            worker.wait_until_ready()
            return watch(worker, scene, posts)

    return measure


def watch(worker: WatchedWorker, scene: Scene, posts: int) -> Measured:
    """The rate and the CPU between the first commit that is seen and the last."""
    first = last = scene.committed(worker.group)
    began = ended = time.perf_counter()
    cpu = worker.cpu()
    while last < posts:
        worker.check()
        if time.perf_counter() - began > PATIENCE:
            raise NotAvailable(f"{last:,} of {posts:,} posts were committed in {PATIENCE:g} s")
        time.sleep(0.1)
        last, ended = scene.committed(worker.group), time.perf_counter()
        if first == 0:
            first, began, cpu = last, ended, worker.cpu()
    done = last - first
    if done < posts / 4:
        raise NotAvailable(f"{posts:,} posts were over too soon to be timed; take more")
    return Measured(done / (ended - began), (worker.cpu() - cpu) / done * 1e6)


def empty_row(scene: Scene, posts: int) -> Measure:
    """Faust's own way: one event after the other, into an agent that does nothing."""
    env = dict(os.environ) | {
        "BENCH_KAFKA": scene.kafka,
        "BENCH_TOPIC": scene.topic("posts"),
        "BENCH_POSTS": str(min(posts, EMPTY_POSTS)),
    }

    def measure() -> Measured:
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [*faust(), "-A", "bench.stream.empty", "--datadir", folder,
                 "worker", "--without-web"],
                cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=PATIENCE,
            )  # fmt: skip
        said = [line for line in done.stdout.splitlines() if line.startswith("rate ")]
        if not said:
            raise NotAvailable(f"Faust's empty agent ended with {done.returncode}")
        return Measured(float(said[-1].split()[1]))

    return measure
