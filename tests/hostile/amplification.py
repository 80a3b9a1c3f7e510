"""`python -m tests.hostile.amplification`: bytes on disk out for each compressed byte in.

A worker with default limits on an Apache Kafka of its own, which says how large its logs are.
"""
# ruff: noqa: T201 - a command that prints a table

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cramjam
import kafka

from encoder.model_directory import write_model
from tests.broker.clients import create, until
from tests.broker.server import Server, opened
from tests.encoder.small import small_model
from tests.hostile.batches import produce
from tests.hostile.target import ARTICLE, Target, post, seed
from tests.worker.kafka.batches.made import CODECS, record, sealed
from worker.config.limits import DEFAULT_LIMITS

MATCHING = "storm flood river city "
DRAINS_WITHIN_S = 900.0
Rows = Iterable[bytes]


def repeated(value: bytes, size: int) -> Rows:
    return (record(0, n, None, value) for n in range(size // (len(value) + 20)))


BYTES = DEFAULT_LIMITS.batch_bytes - 2**16
HEADERS = [("h", b"x" * 16_000)]
SHORT_POSTS = "matches", lambda: (record(0, n, None, post(f"{n}", MATCHING)) for n in range(50_000))
ATTACKS: dict[str, tuple[str, Callable[[], Rows]]] = {
    "dead letters: values of 1 MB": ("rejected", lambda: repeated(b"x" * 1_000_000, BYTES)),
    "dead letters: values of 1 KB": ("rejected", lambda: repeated(b"x" * 1000, BYTES)),
    "dead letters: a byte each": ("rejected", lambda: repeated(b"x", BYTES // 4)),
    "dead letters: keys of 1 MB": (
        "rejected", lambda: (record(0, n, b"k" * 1_000_000, b"x") for n in range(BYTES // 2**20)),
    ),
    "dead letters: headers of 16 KB": (
        "rejected", lambda: (record(0, n, None, b"x", HEADERS) for n in range(BYTES // 16_100)),
    ),
    "matches: short posts, all alike": (
        "matches", lambda: repeated(post("1", MATCHING), BYTES // 8),
    ),
    "matches: short posts, each another": SHORT_POSTS,
    "matches: posts of 1 MB": ("matches", lambda: repeated(post("1", MATCHING * 40_000), BYTES)),
}  # fmt: skip


def on_disk(server: Server, *topics: str) -> int:
    admin = kafka.KafkaAdminClient(bootstrap_servers=server.address)
    try:
        sizes: list[int] = []

        def collect(node: Any) -> None:
            if isinstance(node, dict):
                if (node.get("name") or node.get("topic")) in topics:
                    sizes.extend(part["partition_size"] for part in node["partitions"])
                else:
                    for each in node.values():
                        collect(each)
            elif isinstance(node, list | tuple):
                for each in node:
                    collect(each)

        collect(admin.describe_log_dirs())
        return sum(sizes)
    finally:
        admin.close()


def attack(target: Target, kind: str, rows: Callable[[], Rows]) -> tuple[int, int, int]:
    records = list(rows())
    body = bytes(cramjam.zstd.compress(b"".join(records), 19))
    data = sealed(body, CODECS["zstd"], 0, len(records))
    before = on_disk(target.server, target.topics[kind])
    assert produce(target.server.address, target.topics["posts"], data) == 0
    until(lambda: target.lag() == 0, DRAINS_WITHIN_S)
    return len(records), len(data), on_disk(target.server, target.topics[kind]) - before


def labels(target: Target, folder: Path) -> tuple[int, int, int]:
    file, topic = folder / "labels.jsonl.gz", f"{target.name}-labels"
    rows = [
        {"event": "flood", "label": "on", "post": {"id": str(n), "platform": "x", "text": "storm"}}
        for n in range(50_000)
    ]
    file.write_bytes(gzip.compress("\n".join(map(json.dumps, rows)).encode()))
    create(target.server.address, topic, cleanup_policy="compact")
    subprocess.run(
        [Path(sys.executable).with_name("newsift"), "labels", "import", file, "--yes"],
        env=os.environ | {"NEWSIFT_CONFIG": str(target.config), "NEWSIFT_TOPICS__LABELS": topic},
        check=True,
    )
    return len(rows), file.stat().st_size, on_disk(target.server, topic)


def main() -> None:
    print(f"{'attack':<36}{'records':>9}{'bytes in':>12}{'on disk':>14}{'factor':>9}")
    with TemporaryDirectory() as name, opened("apache", Path(name)) as server:
        folder = Path(name) / "attacks"
        folder.mkdir()
        write_model(folder / "model", small_model())
        target = Target(server, folder, folder / "model", fork=False)
        try:
            target.worker.ready()
            for title, (kind, rows) in ATTACKS.items():
                show(title, *attack(target, kind, rows))
            names = [f"flood {n}".encode() for n in range(9)]
            target.keyed("seeds", [(each, seed(ARTICLE)) for each in names])
            until(lambda: target.live(*map(bytes.decode, names)))
            title = "matches: short posts, ten seeds each"
            show(title, *attack(target, *SHORT_POSTS))
            show("labels: a file, imported", *labels(target, folder))
        finally:
            target.close()


def show(title: str, records: int, bytes_in: int, bytes_out: int) -> None:
    factor = bytes_out / bytes_in
    print(f"{title:<36}{records:>9,}{bytes_in:>12,}{bytes_out:>14,}{factor:>9.1f}", flush=True)


if __name__ == "__main__":
    main()
