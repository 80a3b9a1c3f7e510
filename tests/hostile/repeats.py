"""`python -m tests.hostile.repeats`: what 200,000 equal posts cost a worker, matching or not.

A worker with the default model on an Apache Kafka of its own. Each round writes 200,000 posts in a
few record batches while the worker is stopped, and counts its CPU seconds until all is committed.
"""
# ruff: noqa: T201 - a command that prints a table

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import cramjam

from tests.broker.clients import until
from tests.broker.server import opened
from tests.hostile.batches import produce
from tests.hostile.target import Target, post, seed
from tests.hostile.witness import cpu_seconds
from tests.worker.kafka.batches.made import CODECS, record, sealed

COUNT, ROUNDS, PARTS = 200_000, 3, 4
ARTICLE = (
    "Nine people are missing after a ferry with two hundred passengers caught fire off the coast "
    "near the harbour of Sarnholm on Sunday evening. Rescue boats and two helicopters brought the "
    "others ashore during the night; the coast guard said that the search went on at dawn."
)
ABOUT = "nine people missing after the ferry fire off the coast near Sarnholm harbour"
OTHER = "best tacos of my life today with my two brothers in the small place down the road"
POSTS: dict[str, Callable[[int], bytes]] = {
    "no match, one text": lambda n: post(str(n), OTHER),
    "no match, texts of their own": lambda n: post(str(n), f"{OTHER} number {n}"),
    "match, one text": lambda n: post(str(n), ABOUT),
    "match, one text and one id": lambda n: post("1", ABOUT),
}


def seconds(target: Target, make: Callable[[int], bytes]) -> tuple[float, float]:
    os.kill(target.pid, signal.SIGSTOP)
    for part in range(PARTS):
        numbers = range(part * COUNT // PARTS, (part + 1) * COUNT // PARTS)
        body = b"".join(record(0, at, None, make(n)) for at, n in enumerate(numbers))
        packed = bytes(cramjam.zstd.compress(body))
        data = sealed(packed, CODECS["zstd"], 0, len(numbers))
        assert produce(target.server.address, target.topics["posts"], data) == 0
    spent, began = cpu_seconds(target.pid), time.perf_counter()
    os.kill(target.pid, signal.SIGCONT)
    until(lambda: target.lag() == 0, 600)
    return cpu_seconds(target.pid) - spent, time.perf_counter() - began


def main() -> None:
    rows: dict[str, list[tuple[float, float]]] = {name: [] for name in POSTS}
    with TemporaryDirectory() as name, opened("apache", Path(name)) as server:
        folder = Path(name) / "worker"
        folder.mkdir()
        settings = {"matching": {"threshold": None}}
        target = Target(server, folder, Path("default"), fork=False, **settings)
        try:
            target.worker.ready()
            target.write("seeds", [seed(ARTICLE)], key=b"ferry")
            until(lambda: target.live("ferry"), 60)
            for _ in range(ROUNDS):
                for title, make in POSTS.items():
                    rows[title].append(seconds(target, make))
        finally:
            target.close()
    print(f"{'200,000 posts':<32}{'CPU s':>8}{'wall s':>8}{'of the first':>14}")
    first = sorted(cpu for cpu, _ in rows["no match, one text"])[ROUNDS // 2]
    for title, found in rows.items():
        cpu, wall = (sorted(column)[ROUNDS // 2] for column in zip(*found, strict=True))
        print(f"{title:<32}{cpu:>8.1f}{wall:>8.1f}{cpu / first:>14.2f}")


if __name__ == "__main__":
    main()
