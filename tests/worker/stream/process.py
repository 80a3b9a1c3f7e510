"""The worker as the process that users start, with a small model, and clients to talk to it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafka import KafkaAdminClient, KafkaConsumer, KafkaProducer, TopicPartition

from encoder.model_directory import write_model
from tests.encoder.small import small_model

ROOT = Path(__file__).parents[3]
FAUST = Path(sys.executable).with_name("faust")
PATIENCE_S = 120.0


@dataclass
class Running:
    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def stderr(self) -> str:
        return self.log.read_text("utf-8")

    def wait_for(self, words: str) -> None:
        until(lambda: words in self.stderr or self.process.poll() is not None)
        assert words in self.stderr, self.stderr

    def wait(self) -> int:
        return self.process.wait(PATIENCE_S)

    def terminate(self) -> int:
        self.process.terminate()
        return self.wait()


def until(met: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not met():
        assert time.monotonic() < limit, "waited in vain"
        time.sleep(0.02)


def write_small_model(folder: Path) -> Path:
    write_model(folder / "model", small_model())
    return folder / "model"


def environment(address: str, folder: Path, **more: str) -> dict[str, str]:
    model = folder / "model"
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("NEWSIFT_")
    }
    return inherited | {
        "NEWSIFT_KAFKA": address,
        "NEWSIFT_MODEL__NAME": str(model if model.is_dir() else write_small_model(folder)),
        "NEWSIFT_MODEL__THREADS": "1",
        "NEWSIFT_MODEL__DEVICE": "cpu",
        "NEWSIFT_MATCHING__THRESHOLD": "0.4",
        "NEWSIFT_WEB__PORT": "0",
        **more,
    }


@contextmanager
def worker(address: str, folder: Path, **more: str) -> Iterator[Running]:
    log = folder / f"worker-{time.monotonic_ns()}.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [FAUST, "-A", "worker", "worker"], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=file,
            env=environment(address, folder, **more),
        )  # fmt: skip
    try:
        yield Running(process, log)
    finally:
        process.kill()
        process.wait()


def publish(address: str, topic: str, records: Iterable[tuple[str | None, Any]]) -> None:
    """Send records: keys as text, values as bytes or as what becomes JSON."""
    producer = KafkaProducer(bootstrap_servers=address)
    for key, value in records:
        raw = value if isinstance(value, bytes) or value is None else json.dumps(value).encode()
        producer.send(topic, raw, key=None if key is None else key.encode())
    producer.flush()
    producer.close()


def posts(address: str, texts: Iterable[str], start: int = 0) -> None:
    records = ((str(n), {"id": str(n), "text": text}) for n, text in enumerate(texts, start))
    publish(address, "tweets", records)


def seeds(address: str, **articles: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=address)
    if "seed-articles" not in admin.list_topics():
        config = {"num_partitions": 1, "configs": {"cleanup.policy": "compact"}}
        admin.create_topics({"seed-articles": config}, wait_for_metadata=True)
    admin.close()
    publish(address, "seed-articles", ((name, {"text": text}) for name, text in articles.items()))


def read(address: str, topic: str, count: int) -> list[Any]:
    """The first records of a topic, all of them if there are fewer; waits for so many."""
    consumer = KafkaConsumer(topic, bootstrap_servers=address, auto_offset_reset="earliest")
    result: list[Any] = []
    limit = time.monotonic() + PATIENCE_S
    while len(result) < count and time.monotonic() < limit:
        result += [record for some in consumer.poll(100).values() for record in some]
    consumer.close()
    return result


def topics(address: str) -> set[str]:
    admin = KafkaAdminClient(bootstrap_servers=address)
    result = set(admin.list_topics())
    admin.close()
    return result


def behind(address: str, group: str = "newsift-ingest") -> int:
    consumer = KafkaConsumer(bootstrap_servers=address, group_id=group, enable_auto_commit=False)
    places = [TopicPartition("tweets", n) for n in sorted(consumer.partitions_for_topic("tweets"))]
    ends = consumer.end_offsets(places)
    begins = consumer.beginning_offsets(places)
    lag = sum(ends[p] - (consumer.committed(p) or begins[p]) for p in places)
    consumer.close()
    return int(lag)
