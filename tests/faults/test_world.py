"""What happens around the worker: to the broker, the network, the clock and the disk."""

import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from tests.broker.clients import read_to_end
from tests.broker.kafka import answers
from tests.faults.network import Network
from tests.faults.story import ONE_CRASH, Story

DAY_S = 86_400


def test_10_the_broker_restarts(story: Story) -> None:
    """The broker stops twice for two seconds, and restarts with its data."""
    worker = story.worker()
    story.posts(60)
    for _ in range(2):
        story.until(lambda: sum(story.committed().values()) > 0)
        story.server.stop()
        assert not answers(story.server.address)
        story.events += 1
        time.sleep(2)
        assert worker.alive(), worker.output
        story.server.start()
        story.posts(60)
        story.allowed_duplicates += ONE_CRASH
    story.nothing_lost()
    assert worker.terminate() == 0


def test_20_a_wrong_clock(story: Story) -> None:
    """The broker refuses a clock that is a day ahead; with one a day behind, post times decide."""
    now, hour = datetime.now(UTC), timedelta(hours=1)
    story.publish(
        replace(story.oracle.seed("soon", "police fire in the city"), expires_at=now + hour),
        replace(story.oracle.seed("over", "cat music the a"), expires_at=now - hour),
    )
    story.posts(40)
    early = story.worker(clock_s=DAY_S, refused_s=2 if story.brief else 30)
    assert early.ended() == 1, early.output  # Kafka takes nothing from the future
    assert "this machine's clock" in early.output.splitlines()[-1]
    story.promises_kept()
    story.posts(40)
    late = story.worker(clock_s=-DAY_S)
    assert story.nothing_lost().duplicates == 0
    assert (early.proofs, late.proofs) == ([f"clock +{DAY_S} s"], [f"clock -{DAY_S} s"])
    matches = read_to_end(story.server.address, story.topics["matches"])
    records = [json.loads(row.value) for row in matches]
    assert {row["processed_at"][:10] for row in records} != {f"{now:%Y-%m-%d}"}
    assert "soon" in {m["seed_id"] for row in records for m in row["matches"]}


def test_24_a_bad_network(story: Story) -> None:
    """The network delays answers, cuts connections ten times, and then carries one KB a second."""
    with Network(story.server.address).open() as network:
        worker = story.worker(via=network.route)
        if story.brief:
            worker.ready()
        network.latency_s = 0.25  # in each direction
        story.posts(30)
        story.drained()
        network.latency_s = 0
        for _ in range(3 if story.brief else 10):
            story.posts(10)
            time.sleep(0.5)
            story.events += network.reset()
        story.drained()
        network.bytes_per_s = 1024
        story.posts(30)
        time.sleep(4 if story.brief else 20)
        network.bytes_per_s = 0
        story.posts(30)
        story.allowed_duplicates += ONE_CRASH
        story.nothing_lost()
        assert network.carried > 0
        assert worker.terminate() == 0, worker.output
