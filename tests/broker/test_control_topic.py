"""A worker whose control topic is deleted under it, though the broker makes what is asked for."""

import json
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.broker.clients import admin, create, until, write
from tests.faults.process import Worker
from tests.faults.story import Story

pytestmark = pytest.mark.slow


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
