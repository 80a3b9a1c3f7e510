"""A worker whose offsets are gone: deleted by retention, or of a topic that was made anew."""

import pytest
from kafka import TopicPartition

from tests.broker.clients import admin, consumer, create, until
from tests.broker.workers import caught_up, matched, metric, stays
from tests.faults.story import PARTITIONS, Story

BEYOND = 900
pytestmark = [pytest.mark.usefixtures("impatient"), pytest.mark.slow]


def test_posts_deleted_before_they_are_read_are_reported_once(story: Story) -> None:
    story.posts(30)
    first = story.worker()
    caught_up(story, first)
    assert first.terminate() == 0, first.said
    story.posts(30)
    place = TopicPartition(story.topics["posts"], 0)
    with admin(story.server.address) as client:
        client.delete_records({place: 20})
    second = story.worker()
    caught_up(story, second)
    assert metric(second, "newsift_offsets_lost_total") == 10
    assert second.said.count("were deleted before they were read") == 1
    second.kill()
    third = story.worker()
    third.ready()
    caught_up(story, third)
    assert metric(third, "newsift_offsets_lost_total") == 0
    assert "were deleted" not in third.said


def test_an_offset_beyond_the_end_is_reported_once_and_all_is_read(story: Story) -> None:
    story.posts(30)
    place = TopicPartition(story.topics["posts"], 0)
    group = f"{story.name}-group"
    with consumer(story.server.address, group_id=group) as client:
        client.assign([place])
        client.seek(place, BEYOND)
        client.commit()
    first = story.worker()
    caught_up(story, first)
    assert metric(first, "newsift_offsets_lost_total") == 1
    assert f"partition 0 ends before offset {BEYOND}" in first.said
    assert metric(first, "newsift_posts_read_total") == 30
    first.kill()
    second = story.worker()
    second.ready()
    stays(second)
    assert metric(second, "newsift_offsets_lost_total") == 0
    assert metric(second, "newsift_posts_read_total") == 0


def test_a_topic_that_is_created_again_is_read_from_its_beginning(story: Story) -> None:
    story.posts(60)
    worker = story.worker()
    caught_up(story, worker)
    before, topic = len(matched(story)), story.topics["posts"]
    with admin(story.server.address) as client:
        client.delete_topics([topic])
        until(lambda: topic not in client.list_topics())
    create(story.server.address, topic, PARTITIONS)
    story.posts(30)
    until(lambda: metric(worker, "newsift_posts_read_total") == 90)
    caught_up(story, worker)
    assert len(matched(story)) > before
    assert worker.alive(), worker.said
