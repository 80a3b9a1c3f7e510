"""The worker end to end, as the process `faust -A worker worker`, from posts to matches."""

import json
import re
from typing import Any
from urllib.request import urlopen

import pytest

from tests.broker.clients import admin, consumer, read_to_end, until, write
from tests.faults.checker import check
from tests.faults.expected import SeedWanted
from tests.faults.story import Story

pytestmark = pytest.mark.slow


def test_from_a_live_topic_to_matches(story: Story) -> None:
    """One worker's life: it reads what is there, then what comes, a new seed too, and leaves."""
    story.posts(50)
    story.message(b"{", "bad_json")
    worker = story.worker()
    worker.ready()
    first = story.nothing_lost()
    assert first.matches > 0
    assert first.letters == 1
    story.posts(50)
    second = story.nothing_lost()
    assert second.matches > first.matches
    assert second.duplicates == 0

    address, seeds = story.server.address, story.topics["seeds"]
    late = SeedWanted("late", "Late", "cat cat cat music", 0.000001)
    write(address, seeds, [late.value], key=b"late")
    until(lambda: "3 seeds, set" in worker.said)
    text = "cat cat cat music"
    write(address, story.topics["posts"], [json.dumps({"id": "new", "text": text}).encode()])

    def named() -> bool:
        rows = [json.loads(row.value) for row in read_to_end(address, story.topics["matches"])]
        found = [row for row in rows if row["post"]["id"] == "new"]
        return bool(found) and "late" in {each["seed_id"] for each in found[0]["matches"]}

    until(named)
    write(address, seeds, [None], key=b"late")
    until(lambda: worker.said.count("2 seeds, set") == 2)

    assert worker.terminate() == 0, worker.said
    with admin(address) as client:
        told = client.describe_groups([f"{story.name}-group"])[f"{story.name}-group"]
        assert (told["group_state"], told["members"]) == ("Empty", [])
    assert check(story.history(), drained=False).missing == 0


def place_of(row: Any) -> tuple[int, int]:
    return row["source"]["partition"], row["source"]["offset"]


def test_its_records_and_its_web_pages(story: Story) -> None:
    """What consumers and operators rely on: keys, headers, metrics, readiness."""
    story.posts(50)
    story.message(b"{", "bad_json")
    worker = story.worker()
    story.nothing_lost()
    matches = read_to_end(story.server.address, story.topics["matches"])
    for row in matches:
        assert row.key.decode() == json.loads(row.value)["post"]["id"]
        assert dict(row.headers)["schema"] == b"newsift.match/1"
    told = sorted((json.loads(row.value) for row in matches), key=place_of)
    new: set[tuple[int, str]] = set()
    for row in told:  # whatever says the same came before, in the same partition
        partition, name = row["source"]["partition"], row["matches"][0]["match_id"]
        assert row["new"] == (row["group"] == name)
        new |= {(partition, name)} if row["new"] else set()
        assert (partition, row["group"]) in new
    (letter,) = read_to_end(story.server.address, story.topics["rejected"])
    headers = {name: value.decode() for name, value in letter.headers}
    assert (letter.key, letter.value, headers["attempt"]) == (b"any", b"{", "1")
    assert headers["schema"] == "newsift.rejected/1"

    line = next(line for line in worker.said.splitlines() if "/metrics" in line)
    base = line.rsplit(" ", 1)[1].removesuffix("/metrics")
    with urlopen(f"{base}/metrics", timeout=10) as page:
        metrics = page.read().decode()
    assert "newsift_posts_read_total 51.0" in metrics
    assert f"newsift_posts_matched_total {len(matches)}.0" in metrics
    stories = re.findall(r"newsift_stories_total{.*} (.*)", metrics)
    assert sum(map(float, stories)) >= len(new) > 0
    assert 'newsift_posts_rejected_total{reason="bad_json"} 1.0' in metrics
    for path in ("/healthz", "/readyz"):
        with urlopen(f"{base}{path}", timeout=10) as page:
            assert page.status == 200
    with consumer(story.server.address) as client:
        assert story.topics["matches"] in client.topics()
