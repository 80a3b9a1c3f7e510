"""A worker end to end: matches, a lost control topic, offsets that are gone."""

import json
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from kafka import TopicPartition

from tests.broker.clients import admin, consumer, create, read_to_end, until, write
from tests.broker.workers import caught_up, matched, metric, stays
from tests.faults.expected import SeedWanted
from tests.faults.process import Worker
from tests.faults.story import PARTITIONS, Story

pytestmark = pytest.mark.slow


def test_posts_of_a_live_topic_become_matches(story: Story) -> None:
    story.posts(50)
    story.message(b"{", "bad_json")
    worker = story.worker()
    worker.ready()
    first = story.nothing_lost()
    assert (first.matches > 0, first.letters) == (True, 1)

    address, seeds = story.server.address, story.topics["seeds"]
    late = SeedWanted("late", "Late", "cat cat cat music", 0.000001)
    write(address, seeds, [late.value], key=b"late")
    until(lambda: "3 seeds, set" in worker.said)
    post = json.dumps({"id": "new", "text": "cat cat cat music"}).encode()
    write(address, story.topics["posts"], [post])

    def is_matched() -> bool:
        rows = [json.loads(row.value) for row in read_to_end(address, story.topics["matches"])]
        found = [row for row in rows if row["post"]["id"] == "new"]
        return bool(found) and "late" in {each["seed_id"] for each in found[0]["matches"]}

    until(is_matched)
    write(address, seeds, [None], key=b"late")
    until(lambda: worker.said.count("2 seeds, set") == 2)
    assert worker.terminate() == 0, worker.said
    with admin(address) as client:
        group = client.describe_groups([f"{story.name}-group"])[f"{story.name}-group"]
        assert (group["group_state"], group["members"]) == ("Empty", [])


def test_records_and_web_pages_are_those_of_the_contract(story: Story) -> None:
    story.posts(50)
    story.message(b"{", "bad_json")
    worker = story.worker()
    story.nothing_lost()
    matches = read_to_end(story.server.address, story.topics["matches"])
    for row in matches:
        assert row.key.decode() == json.loads(row.value)["post"]["id"]
        assert dict(row.headers)["schema"] == b"newsift.match/1"
    first: set[tuple[int, str]] = set()
    for row in sorted(map(json.loads, (row.value for row in matches)), key=place_of):
        partition, name = row["source"]["partition"], row["matches"][0]["match_id"]
        assert row["new"] == (row["group"] == name)
        first |= {(partition, name)} if row["new"] else set()
        assert (partition, row["group"]) in first
    (letter,) = read_to_end(story.server.address, story.topics["rejected"])
    headers = {name: value.decode() for name, value in letter.headers}
    assert (letter.key, letter.value, headers["attempt"]) == (b"any", b"{", "1")
    assert headers["schema"] == "newsift.rejected/1"
    assert metric(worker, "newsift_posts_read_total") == 51
    assert metric(worker, "newsift_posts_matched_total") == len(matches)
    assert metric(worker, "newsift_posts_rejected_total") == 1
    assert metric(worker, "newsift_stories_total") >= len(first) > 0
    assert worker.page("/healthz") is not None
    assert (worker.page("/readyz") or {})["ready"]


def place_of(row: Any) -> tuple[int, int]:
    return row["source"]["partition"], row["source"]["offset"]


def ready(worker: Worker) -> tuple[int, str]:
    line = next(line for line in worker.said.splitlines() if "/metrics" in line)
    address = line.rsplit(" ", 1)[1].removesuffix("/metrics") + "/readyz"
    try:
        with urlopen(address, timeout=10) as page:
            return page.status, json.load(page)["reason"]
    except HTTPError as error:
        with error:
            return error.code, json.load(error)["reason"]


def test_posts_wait_until_a_lost_control_topic_has_its_seeds_again(story: Story) -> None:
    address, topic = story.server.address, story.topics["seeds"]
    worker = story.worker()
    worker.ready()
    story.posts(20)
    story.nothing_lost()

    with admin(address) as client:
        client.delete_topics([topic])
        until(lambda: ready(worker) == (503, f"the control topic {topic} is gone"))
        story.posts(20)
        assert topic not in client.list_topics()
    create(address, topic, 1, cleanup_policy="compact")
    until(lambda: "made again and is empty" in ready(worker)[1])
    assert sum(story.committed().values()) == 20

    for seed in story.oracle.seeds:
        write(address, topic, [seed.value], key=seed.id.encode())
    until(lambda: ready(worker) == (200, ""))
    assert story.nothing_lost().matches > 0
    assert worker.terminate() == 0, worker.said


BEYOND = 900


@pytest.mark.usefixtures("impatient")
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


@pytest.mark.usefixtures("impatient")
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


@pytest.mark.usefixtures("impatient")
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
