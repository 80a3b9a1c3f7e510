"""`newsift seeds follow`, round after round: what is away is told once and tried again."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from newsift.cli.options import configuration
from newsift.collect.feeds import Followed
from newsift.operations.feeds import ArticleIndex, Follower, FollowLoop, FollowOptions
from newsift.web.client import Bounds
from newsift.web.polite import PoliteWeb
from tests.broker.clients import until
from tests.newsift.cli.seeds.feed_side import Reply, Site, feed, item, page, seeds_of
from tests.worker.kafka_side import SEEDS, Kafka
from worker.errors import RunError
from worker.seeds.state import ControlState

DAY = 86_400_000


@pytest.fixture
def tour(site: Site, kafka: Kafka) -> FollowLoop:
    web = PoliteWeb(Bounds(allow=lambda _: True), pause=0.0)
    existing, plan = (
        Followed(f"{site.url}/feed", f"{site.url}/feed"),
        FollowOptions("ferry", 14 * DAY, 20),
    )
    config = configuration(str(kafka.address), None)
    return FollowLoop(Follower(web, existing, plan, config, lambda: None, print), 60.0, once=False)


def again(tour: FollowLoop) -> None:
    """The next round, whenever it would be."""
    tour.follower.followed.wait_until = 0
    tour.round()


def test_a_feed_that_is_away_is_told_once_and_tried_ever_more_seldom(
    tour: FollowLoop, site: Site, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": Reply(status=503)}
    waits = []
    for _ in range(12):
        before = time.time()
        again(tour)
        waits.append(round((tour.follower.followed.wait_until / 1000 - before) / 60))
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360, 360]
    assert capsys.readouterr().err.count("answers 503") == 1
    site.replies["/feed"] = feed(item("/a"))
    again(tour)
    assert "the feed answers again" in capsys.readouterr().err
    assert len(seeds_of(kafka)) == 1
    assert tour.follower.followed.failures == 0


def test_once_it_has_answered_no_answer_ends_it_but_gone(
    tour: FollowLoop, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.replies["/feed"] = feed()
    again(tour)
    for reply in (Reply(b"<html>maintenance"), Reply(status=404), Reply(status=403)):
        site.replies["/feed"] = reply
        again(tour)
    output = capsys.readouterr().err
    assert output.count("tried again") == 3
    site.replies["/feed"] = Reply(status=410)
    with pytest.raises(RunError, match="gone for good"):
        again(tour)


def test_a_broker_that_is_away_is_told_once_and_nothing_is_lost(
    tour: FollowLoop, site: Site, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"), ETag="x")}
    there = tour.follower.config
    nobody = replace(there.kafka, bootstrap_servers="127.0.0.1:1")
    tour.follower.config = replace(there, kafka=nobody)
    for _ in range(2):
        again(tour)
    assert capsys.readouterr().err.count("127.0.0.1:1") == 1
    assert "/a" not in site.paths()  # no page is read in vain
    tour.follower.config = there
    again(tour)
    assert len(seeds_of(kafka)) == 1


def test_a_control_topic_that_was_made_again_is_read_anew(
    tour: FollowLoop, site: Site, kafka: Kafka
) -> None:
    for name in ("Astrid", "Birka"):
        site.replies |= {f"/{name}": page(name), "/feed": feed(item(f"/{name}"))}
        again(tour)
    index = tour.follower.index
    assert (len(index), "fire-on-the-astrid" in index, "fire-on-the-birka" in index) == (
        2, True, True,
    )  # fmt: skip
    admin = KafkaAdminClient(bootstrap_servers=str(kafka.address))
    admin.delete_topics(["seed-articles"])
    admin.close()
    kafka.make("seed-articles")
    site.replies |= {"/c": page("Cinderella"), "/feed": feed(item("/c"))}
    again(tour)
    assert (len(index), "fire-on-the-cinderella" in index) == (1, True)


class InterruptedIndex(ArticleIndex):
    """Lets something happen after it was brought up to date for the second time in a round."""

    def __init__(self, interruption: Callable[[], None]) -> None:
        super().__init__()
        self.interruption, self.updates = interruption, 0

    def update(self, state: ControlState) -> None:
        super().update(state)
        self.updates += 1
        if self.updates == 2:
            self.interruption()


@pytest.mark.parametrize("corrected", [False, True])
def test_a_seed_that_somebody_publishes_while_an_article_is_compared_stays(
    tour: FollowLoop, site: Site, kafka: Kafka, capsys: pytest.CaptureFixture[str], corrected: bool
) -> None:
    mine = {"text": "Written by hand in the same moment."}
    site.replies |= {"/a": page("Astrid"), "/feed": feed(item("/a"))}
    if corrected:
        again(tour)
        site.replies["/a"] = page("Astrid", "Correction: eleven people are missing. " * 5)
        site.replies["/feed"] = feed(item("/a", said="Corrected"))
    value = json.dumps(mine).encode()
    tour.follower.index = InterruptedIndex(lambda: kafka.send(SEEDS, value, b"fire-on-the-astrid"))
    again(tour)
    assert "'fire-on-the-astrid': was published by somebody else" in capsys.readouterr().err
    assert seeds_of(kafka)["fire-on-the-astrid"] == mine
    again(tour)
    assert seeds_of(kafka)["fire-on-the-astrid"] == mine
    assert len(seeds_of(kafka)) == (1 if corrected else 2)


SCRIPT = """
import sys, functools, newsift.cli, newsift.cli.seeds as f
f.PUBLIC_FEEDS = f.Bounds(allow=lambda _: True)
f.PoliteWeb = functools.partial(f.PoliteWeb, pause=0.0)
sys.exit(newsift.cli.run(['seeds', 'follow', sys.argv[1], '--every', sys.argv[2]]))
"""


@pytest.mark.slow
def test_sigterm_ends_it_and_the_next_goes_on_where_it_was(
    site: Site, kafka: Kafka, tmp_path: Path
) -> None:
    site.replies |= {"/a": page("Astrid"), "/b": page("Birka")}
    root, entries = Path(__file__).parents[4], [item("/a"), item("/b")]
    for count in (1, 2):
        site.replies["/feed"] = feed(*entries[:count])
        process = subprocess.Popen(
            [sys.executable, "-c", SCRIPT, f"{site.url}/feed", "1s"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(root)},
        )  # fmt: skip
        until(lambda count=count: len(seeds_of(kafka)) == count, 60)  # type: ignore[misc]
        requests = len(site.asked)
        until(lambda requests=requests: len(site.asked) > requests, 60)  # type: ignore[misc]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert len(out.splitlines()) == 1
    assert site.paths().count("/a") == 1
