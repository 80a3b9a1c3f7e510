"""`newsift seeds follow`, round after round: what is away is told once and tried again."""

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from kafka import KafkaAdminClient

from tests.broker.clients import until
from tests.worker.cli.seeds.feed_side import Reply, Site, feed, item, page, seeds_of
from tests.worker.kafka_side import Kafka
from worker.actions.seeds.fetch import Bounds
from worker.actions.seeds.polite import PoliteWeb
from worker.actions.seeds.round import Follower, Plan
from worker.actions.seeds.tour import Tour
from worker.cli.options import configuration
from worker.errors import RunError
from worker.sources.followed import Followed

DAY = 86_400_000


@pytest.fixture
def tour(site: Site, kafka: Kafka) -> Tour:
    web = PoliteWeb(Bounds(allow=lambda _: True), pause=0.0)
    known, plan = Followed(f"{site.url}/feed", f"{site.url}/feed"), Plan("ferry", 14 * DAY, 20)
    config = configuration(str(kafka.address), None)
    return Tour(Follower(web, known, plan, config, lambda: None, print), 60.0, once=False)


def again(tour: Tour) -> None:
    """The next round, whenever it would be."""
    tour.follower.followed.wait_until = 0
    tour.round()


def test_a_feed_that_is_away_is_told_once_and_tried_ever_more_seldom(
    tour: Tour, site: Site, kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    site.replies |= {"/a": page("Astrid"), "/feed": Reply(status=503)}
    waits = []
    for _ in range(12):
        before = time.time()
        again(tour)
        waits.append(round((tour.follower.followed.wait_until / 1000 - before) / 60))
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 360, 360, 360]
    assert capsys.readouterr().err.count("503") == 1
    site.replies["/feed"] = feed(item("/a"))
    again(tour)
    assert "the feed answers again" in capsys.readouterr().err
    assert len(seeds_of(kafka)) == 1
    assert tour.follower.followed.failures == 0


def test_once_it_has_answered_no_answer_ends_it_but_gone(
    tour: Tour, site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.replies["/feed"] = feed()
    again(tour)
    for reply in (Reply(b"<html>maintenance"), Reply(status=404), Reply(status=403)):
        site.replies["/feed"] = reply
        again(tour)
    told = capsys.readouterr().err
    assert told.count("tried again") == 3
    site.replies["/feed"] = Reply(status=410)
    with pytest.raises(RunError, match="gone for good"):
        again(tour)


def test_a_broker_that_is_away_is_told_once_and_nothing_is_lost(
    tour: Tour, site: Site, kafka: Kafka, capsys: pytest.CaptureFixture[str]
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
    tour: Tour, site: Site, kafka: Kafka
) -> None:
    for name in ("Astrid", "Birka"):
        site.replies |= {f"/{name}": page(name), "/feed": feed(item(f"/{name}"))}
        again(tour)
    assert tour.follower.book.versions.keys() == {"fire-on-the-astrid", "fire-on-the-birka"}
    admin = KafkaAdminClient(bootstrap_servers=str(kafka.address))
    admin.delete_topics(["seed-articles"])
    admin.close()
    kafka.make("seed-articles")
    site.replies |= {"/c": page("Cinderella"), "/feed": feed(item("/c"))}
    again(tour)
    assert tour.follower.book.versions.keys() == {"fire-on-the-cinderella"}


SCRIPT = """
import sys, functools, worker.cli, worker.cli.seeds.follow as f
f.OPEN = f.Bounds(allow=lambda _: True)
f.PoliteWeb = functools.partial(f.PoliteWeb, pause=0.0)
sys.exit(worker.cli.run(['seeds', 'follow', sys.argv[1], '--every', sys.argv[2]]))
"""


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
        asked = len(site.asked)
        until(lambda asked=asked: len(site.asked) > asked, 60)  # type: ignore[misc]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert len(out.splitlines()) == 1
    assert site.paths().count("/a") == 1
