"""What the topics of matches and of dead letters do: they are gone, refuse, or are slow."""

import time

from kafka.admin import ConfigResource, ConfigResourceType

from tests.broker.clients import admin, create
from tests.faults.network import Network
from tests.faults.story import ONE_CRASH, PARTITIONS, Story


def test_08_dead_letters_have_nowhere_to_go(story: Story) -> None:
    """The topic of dead letters is missing; the worker pauses and commits no post after that."""
    _output_is_down(story, "rejected")


def test_09_matches_have_nowhere_to_go(story: Story) -> None:
    """The topic of matches is missing; the worker pauses and commits no post after that."""
    _output_is_down(story, "matches")


def _output_is_down(story: Story, kind: str) -> None:
    worker = story.worker()
    worker.ready()
    with admin(story.server.address) as client:
        client.delete_topics([story.topics[kind]])
    story.events += 1
    story.posts(30)
    story.message(b"{", "bad_json")
    story.posts(60)
    story.until(lambda: "pausing" in worker.output)
    time.sleep(1)  # whatever it does now, it has had the time to do it wrongly
    story.promises_kept()
    assert story.committed() != story.ends()
    create(story.server.address, story.topics[kind], PARTITIONS)
    story.allowed_duplicates += ONE_CRASH
    story.nothing_lost()
    assert worker.terminate() == 0, worker.output


def test_09_match_records_are_too_large(story: Story) -> None:
    """The topic of matches refuses large records; each of them becomes a dead letter."""
    story.worker().ready()
    set_up(story, "matches", "max.message.bytes", "300")
    story.posts(40, too_large=True)
    assert story.nothing_lost().letters > 0
    story.events += 1
    set_up(story, "matches", "max.message.bytes", "1048588")
    story.posts(20)
    assert story.nothing_lost().matches > 0


def set_up(story: Story, kind: str, key: str, value: str) -> None:
    resource = ConfigResource(ConfigResourceType.TOPIC, story.topics[kind], {key: value})
    with admin(story.server.address) as client:
        client.alter_configs([resource])


def test_14_the_output_is_slow(story: Story) -> None:
    """Each write takes seconds while 40 MB of posts wait; the worker's memory stays bounded."""
    with Network(story.server.address).open() as network:
        config = story.settings()
        config["stream"] |= {"batch_bytes": 2**20, "produce_deadline_s": 10}
        worker = story.worker(config, via=network.route)
        story.posts(60)
        story.drained()
        before = worker.memory()
        network.produce_s, length = (1.0, 6) if story.brief else (4.0, 60)
        story.posts(400, filler=100_000)
        sizes = []
        for _ in range(length):
            time.sleep(1)
            sizes.append((worker.memory() - before) / 2**20)
        behind = sum(story.ends().values()) - sum(story.committed().values())
        assert behind > 100, f"the output was not slow: {behind} posts wait"
        story.events += 1
        network.produce_s = 0
        story.nothing_lost()
    assert max(sizes) < 20, f"it grew by so many MB: {sizes}"
