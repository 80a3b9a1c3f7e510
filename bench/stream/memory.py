"""Whether a worker stays as it is over millions of posts: what it holds, and what a post costs."""

import threading
import time
from collections.abc import Sequence
from typing import NamedTuple

from bench.measure import NotAvailable, Say
from bench.stream.scene import Scene, post_records
from bench.stream.worker import WatchedWorker, running_worker

CHUNK = 100_000
AHEAD = 400_000
STALLED = 300.0


class Reading(NamedTuple):
    """The posts done, the megabytes resident, and the CPU µs of each post since the last one."""

    posts: int
    resident: float
    cost: float


def memory(scene: Scene, seeds: str, texts: Sequence[str], posts: int, say: Say) -> list[Reading]:
    """What the worker holds and what a post costs it, ten times on the way."""
    done, ended = [0], threading.Event()

    def feed() -> None:
        """Publish all posts, never too many ahead of the worker, so that no disk fills."""
        records, sent = post_records(texts, posts), 0
        while sent < posts and not ended.is_set():
            if sent - done[0] > AHEAD:
                time.sleep(0.2)
                continue
            chunk = min(CHUNK, posts - sent)
            sent += scene.publish("posts", (next(records) for _ in range(chunk)))

    with running_worker(scene, seeds) as worker:
        worker.wait_until_ready()
        feeder = threading.Thread(target=feed)
        feeder.start()
        try:
            return readings(worker, scene, posts, done, say)
        finally:
            ended.set()
            feeder.join()


def readings(
    worker: WatchedWorker, scene: Scene, posts: int, done: list[int], say: Say
) -> list[Reading]:
    """The worker's memory and CPU at every tenth of the way."""
    found: list[Reading] = []
    moved, before, spent = time.monotonic(), 0, worker.cpu()
    while done[0] < posts:
        worker.check()
        time.sleep(0.5)
        now = scene.committed(worker.group)
        if now > done[0]:
            done[0], moved = now, time.monotonic()
        elif time.monotonic() - moved > STALLED:
            raise NotAvailable(f"no post was committed for {STALLED:g} s, after {now:,}")
        if done[0] >= (len(found) + 1) * posts // 10:
            used = worker.cpu()
            cost = 1e6 * (used - spent) / (done[0] - before)
            found.append(Reading(done[0], worker.resident(), cost))
            before, spent = done[0], used
            say(f"{done[0]:,} of {posts:,} posts, {found[-1].resident:.0f} MB, {cost:.1f} µs")
    return found
