"""From produce to match: posts at a steady pace in, the time of every match out."""

import json
import threading
import time
from collections.abc import Sequence
from itertools import islice

from kafka import KafkaConsumer, KafkaProducer

from bench.stream.scene import Scene, post_records
from bench.stream.worker import running_worker

SLICE = 0.005  # seconds between two handfuls of posts
WARM = 5.0


def latencies(
    scene: Scene, seeds: str, texts: Sequence[str], rate: int, seconds: float
) -> list[float]:
    """Milliseconds from a post's timestamp to its match at a consumer, without the first ones."""
    stopped = threading.Event()
    found: list[tuple[int, float]] = []
    with running_worker(scene, seeds) as worker:
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
    return [seen * 1e3 - sent for sent, seen in found if sent / 1e3 > began + WARM]


def pace(scene: Scene, texts: Sequence[str], rate: int, seconds: float) -> None:
    """Send so many posts a second, a handful at a time."""
    records, sent, began = post_records(texts, int(rate * seconds)), 0, time.perf_counter()
    with KafkaProducer(bootstrap_servers=scene.kafka, linger_ms=0) as producer:
        while due := int((time.perf_counter() - began) * rate) - sent + 1:
            handful = list(islice(records, due))
            if not handful:
                break
            for key, value in handful:
                producer.send(scene.topic("posts"), value, key=key)
            sent += len(handful)
            time.sleep(SLICE)
        producer.flush()


def collect(scene: Scene, stopped: threading.Event, found: list[tuple[int, float]]) -> None:
    """Note for every match when its post was sent and when the match was here."""
    with KafkaConsumer(bootstrap_servers=scene.kafka, fetch_max_wait_ms=100) as consumer:
        parts = scene.partitions("matches")
        consumer.assign(parts)
        consumer.seek_to_end()
        for part in parts:
            consumer.position(part)
        while not stopped.is_set():
            for records in consumer.poll(timeout_ms=100).values():
                seen = time.time()
                sources = (json.loads(record.value)["source"] for record in records)
                found.extend((source["timestamp"], seen) for source in sources)
