"""Batches that unpack to more than a worker may hold, on every broker that takes them."""

import json
from pathlib import Path

import pytest

from tests.broker.clients import read_to_end, until
from tests.broker.wire import Idempotent
from tests.faults.story import Story
from tests.worker.kafka.batches.made import bomb

pytestmark = pytest.mark.slow

MIB = 2**20
UNPACKED = 48 * MIB  # a worker takes 32, the embedded broker 64
MOST = 1536 * MIB
GZIP, LZ4, ZSTD = 1, 3, 4


def produced(story: Story, topic: str, codec: int, key: bytes | None = None) -> int:
    """Write a poisoned batch to the first partition, byte by byte; its offset."""
    stranger = Idempotent(story.server.address, story.topics[topic])
    told = stranger.produce(bomb(codec, UNPACKED, key=key))
    stranger.wire.close()
    assert told.error_code == 0
    return int(told.base_offset)


def letters(story: Story) -> set[tuple[bytes | None, str, str, str]]:
    """Of each dead letter the value, the reason, the offsets and the source."""
    found = set()
    for row in read_to_end(story.server.address, story.topics["rejected"]):
        said = {name: value.decode() for name, value in row.headers}
        found.add((row.value, said["reason"], said["offsets"], said["source"]))
    return found


def test_poison_on_both_topics_is_passed_and_its_neighbours_match(story: Story) -> None:
    story.posts(12)
    poisoned = [produced(story, "posts", codec) for codec in (GZIP, LZ4, ZSTD) * 4]
    produced(story, "seeds", ZSTD, b"bomb")
    story.posts(12)
    worker = story.worker()
    worker.ready()
    story.drained()
    name = story.topics["posts"]
    assert letters(story) == {
        (None, "limits.batch_bytes", f"{at}-{at}", f"{name}-0-{at}") for at in poisoned
    }
    matches = read_to_end(story.server.address, story.topics["matches"])
    found = {match["match_id"] for row in matches for match in json.loads(row.value)["matches"]}
    assert found == {match for sent in story.sent for match in sent.match_ids}
    assert worker.said.count("are passed over (limits.batch_bytes)") == len(poisoned) + 1
    status = Path(f"/proc/{worker.process.pid}/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0]) * 1024
    assert peak < MOST

    late = produced(story, "posts", ZSTD)
    produced(story, "seeds", ZSTD, b"bomb")
    until(lambda: len(letters(story)) == len(poisoned) + 1)
    assert (None, "limits.batch_bytes", f"{late}-{late}", f"{name}-0-{late}") in letters(story)
    assert worker.terminate() == 0, worker.said
