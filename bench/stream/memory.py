"""Whether a worker stays as it is over millions of posts: what it holds, and what a post costs."""

import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.measure import NotAvailable
from bench.stream.scene import Scene, post_records
from bench.stream.worker import Worker

CHUNK = 100_000
AHEAD = 400_000
STALLED = 300.0


class Reading(NamedTuple):
    """The posts done, the megabytes resident, and the CPU µs of each post since the last one."""

    posts: int
    resident: float
    cost: float


def memory(
    scene: Scene, seeds: str, texts: Sequence[str], posts: int, say: Callable[[str], None]
) -> list[Reading]:
    """What the worker holds and what a post costs it, ten times on the way."""
    group = f"{scene.name}-memory-{time.time_ns():x}"
    done = [0]
    ended = threading.Event()
    with tempfile.TemporaryDirectory() as folder, Worker(
        scene, seeds, group, Path(folder)
    ) as worker:  # fmt: skip
        worker.wait_until_ready()
        feeder = threading.Thread(target=feed, args=(scene, texts, posts, done, ended))
        feeder.start()
        try:
            return watch(worker, scene, group, posts, done, say)
        finally:
            ended.set()
            feeder.join()


def feed(
    scene: Scene, texts: Sequence[str], posts: int, done: list[int], ended: threading.Event
) -> None:
    """Publish all posts, never too many ahead of the worker, so that no disk fills."""
    records, sent = post_records(texts, posts), 0
    while sent < posts and not ended.is_set():
        if sent - done[0] > AHEAD:
            time.sleep(0.2)
            continue
        sent += scene.publish("posts", (next(records) for _ in range(min(CHUNK, posts - sent))))


def watch(
    worker: Worker,
    scene: Scene,
    group: str,
    posts: int,
    done: list[int],
    say: Callable[[str], None],
) -> list[Reading]:
    """Read the worker's memory and CPU at every tenth of the way."""
    readings: list[Reading] = []
    moved, before, spent = time.monotonic(), 0, worker.cpu()
    while done[0] < posts:
        worker.check()
        time.sleep(0.5)
        now = scene.committed(group)
        if now > done[0]:
            done[0], moved = now, time.monotonic()
        elif time.monotonic() - moved > STALLED:
            raise NotAvailable(f"no post was committed for {STALLED:g} s, after {now:,}")
        if done[0] >= (len(readings) + 1) * posts // 10:
            used = worker.cpu()
            cost = 1e6 * (used - spent) / (done[0] - before)
            readings.append(Reading(done[0], worker.resident(), cost))
            before, spent = done[0], used
            say(f"{done[0]:,} of {posts:,} posts, {readings[-1].resident:.0f} MB, {cost:.1f} µs")
    return readings
