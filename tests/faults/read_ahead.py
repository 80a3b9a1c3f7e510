"""What a worker reads ahead of posts that it cannot keep up with, with one broker and with three.

python -m tests.faults.read_ahead

Each row has Apache Kafka brokers and a worker of its own, and the same posts: long ones, on twelve
partitions, all there when the worker starts. The worker takes small batches, one at a time. Bytes
read ahead are those in aiokafka's buffer, unpacked.
"""

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from bench.stream import BenchTopics, post_records, seed_records
from newsift.cli.processes import free_port, stop_group
from tests.broker.clients import admin, until
from tests.broker.kafka import ApacheKafka

PARTITIONS = 12
POSTS = 16_000
WORDS = 1_500  # of a post
TEXTS = 400
MIB = 2**20
PATIENCE_S = 300


# A worker that notes the most bytes that it has read ahead, and has had resident since the first.
WORKER = """
import sys, threading, time
from pathlib import Path
from faust.cli.faust import cli
from worker.kafka.consumers import Consumer

def watch(consumer, result):
    ahead = 0
    while True:
        results = list(consumer._fetcher._records.values())
        parts = [getattr(each, "_partition_records", None) for each in results]
        now = sum(part._records.size_in_bytes() for part in parts if part is not None)
        if now and not ahead:
            Path("/proc/self/clear_refs").write_text("5")
        ahead = max(ahead, now)
        if ahead:
            lines = Path("/proc/self/status").read_text().splitlines()
            resident = next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))
            fresh = result.with_suffix(".new")
            fresh.write_text(f"{ahead} {resident * 1024}")
            fresh.replace(result)
        time.sleep(0.005)

async def start_watched(consumer):
    await start(consumer)
    if consumer._group_id is not None:
        threading.Thread(target=watch, args=(consumer, result), daemon=True).start()

start, Consumer.start = Consumer.start, start_watched
result = Path(sys.argv[1])
sys.argv = ["faust", "--quiet", "-A", "worker", "worker"]
cli()
"""


def main() -> None:
    sys.stdout.write("brokers  read ahead, MiB  resident, MiB  posts/s\n")
    for count in (1, 3):
        with tempfile.TemporaryDirectory() as folder, cluster(Path(folder), count) as address:
            ahead, resident, rate = measure(address, Path(folder))
        row = f"{count:7}  {ahead / MIB:15.0f}  {resident / MIB:13.0f}  {rate:7,.0f}\n"
        sys.stdout.write(row)


@contextmanager
def cluster(folder: Path, count: int) -> Iterator[str]:
    """So many brokers; the address of the first."""
    with ExitStack() as stack:
        brokers: list[ApacheKafka] = []
        for number in range(1, count + 1):
            settings = {"node.id": str(number)}
            if brokers:
                quorum = {"controller.quorum.voters": brokers[0].quorum}
                settings |= {"process.roles": "broker"} | quorum
            home = folder / str(number)
            home.mkdir()
            brokers.append(ApacheKafka(home, secure=False, **settings))
            stack.callback(brokers[-1].stop)
            brokers[-1].start()
        address = brokers[0].address
        with admin(address) as client:
            until(lambda: len(client.describe_cluster()["brokers"]) == count)
        yield address


def measure(address: str, folder: Path) -> tuple[int, int, float]:
    """The most bytes read ahead and resident, and the posts a second."""
    topics = BenchTopics.fresh(address, PARTITIONS)
    for role in ("posts", "matches", "rejected"):
        topics.create(role, PARTITIONS, {})
    topics.create("seeds", 1, {"cleanup.policy": "compact"})
    chance = random.Random(1)
    words = [f"{chance.getrandbits(40):x}" for _ in range(1_000)]
    texts = [" ".join(chance.choices(words, k=WORDS)) for _ in range(TEXTS)]
    topics.publish("seeds", seed_records([("", texts[0])], 1.0))
    topics.publish("posts", post_records(texts[1:], POSTS))
    env = os.environ | {
        f"NEWSIFT_TOPICS__{role.upper()}": topics.name(role)
        for role in ("posts", "matches", "rejected", "seeds")
    }
    env |= {"NEWSIFT_KAFKA": address, "NEWSIFT_WEB__PORT": str(free_port())}
    env |= {"NEWSIFT_STREAM__IN_FLIGHT": "1", "NEWSIFT_STREAM__BATCH_POSTS": "64"}
    result = folder / "result"
    process = subprocess.Popen(
        [sys.executable, "-c", WORKER, str(result)], env=env, start_new_session=True
    )
    try:
        with topics.commits("newsift-ingest") as committed:
            until(committed, PATIENCE_S)
            began, first = time.monotonic(), committed()
            while committed() < POSTS:
                assert process.poll() is None
                time.sleep(0.2)
            rate = (POSTS - first) / (time.monotonic() - began)
    finally:
        stop_group(process)
    ahead, resident = map(int, result.read_text("ascii").split())
    return ahead, resident, rate


if __name__ == "__main__":
    main()
