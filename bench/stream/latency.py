"""From produce to match: posts at a steady pace in, the time of every match out."""

import json
import tempfile
import threading
import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path

from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from bench.stream.scene import PARTITIONS, Scene, post_records
from bench.stream.worker import Worker

SLICE = 0.005  # seconds between two handfuls of posts
WARM = 5.0


def latencies(
    scene: Scene, seeds: str, texts: Sequence[str], rate: int, seconds: float
) -> list[float]:
    """Milliseconds from a post's timestamp to its match at a consumer, without the first ones."""
    stopped = threading.Event()
    found: list[tuple[int, float]] = []
    group = f"{scene.name}-latency-{time.time_ns():x}"
    with tempfile.TemporaryDirectory() as folder, Worker(
        scene, seeds, group, Path(folder)
    ) as worker:  # fmt: skip
        worker.wait_until_ready()
        reader = threading.Thread(target=collect, args=(scene, stopped, found))
        reader.start()
        try:
            began = time.time()
            pace(scene, texts, rate, seconds + WARM)
            time.sleep(2)
            worker.check()
        finally:
            stopped.set()
            reader.join()
    kept = [(sent, seen) for sent, seen in found if sent / 1e3 > began + WARM]
    return [seen * 1e3 - sent for sent, seen in kept]


def pace(scene: Scene, texts: Sequence[str], rate: int, seconds: float) -> None:
    """Send so many posts a second, a handful at a time."""
    producer = KafkaProducer(bootstrap_servers=scene.kafka, linger_ms=0)
    records = post_records(texts, int(rate * seconds))
    began, sent = time.perf_counter(), 0
    try:
        while due := int((time.perf_counter() - began) * rate) - sent + 1:
            handful = list(islice(records, due))
            if not handful:
                break
            for key, value in handful:
                producer.send(scene.topic("posts"), value, key=key)
            sent += len(handful)
            time.sleep(SLICE)
        producer.flush()
    finally:
        producer.close()


def collect(scene: Scene, stopped: threading.Event, found: list[tuple[int, float]]) -> None:
    """Note for every match when its post was sent and when the match was here."""
    consumer = KafkaConsumer(bootstrap_servers=scene.kafka, fetch_max_wait_ms=100)
    try:
        parts = [TopicPartition(scene.topic("matches"), p) for p in range(PARTITIONS)]
        consumer.assign(parts)
        consumer.seek_to_end()
        for part in parts:
            consumer.position(part)
        while not stopped.is_set():
            for records in consumer.poll(timeout_ms=100).values():
                seen = time.time()
                sources = (json.loads(record.value)["source"] for record in records)
                found.extend((source["timestamp"], seen) for source in sources)
    finally:
        consumer.close()
