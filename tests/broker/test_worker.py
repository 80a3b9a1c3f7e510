"""The worker end to end, as the process `faust -A worker worker`, from posts to matches."""

import json
from typing import Any

import pytest

from tests.broker.clients import admin, read_to_end, until, write
from tests.broker.workers import metric
from tests.faults.expected import SeedWanted
from tests.faults.story import Story

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
