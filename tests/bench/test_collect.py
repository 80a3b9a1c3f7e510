"""`newsift bench collect` on few events: what it replays is read, and its table is made."""

import json

import pytest
from click.testing import CliRunner

from bench.cli import bench
from bench.collect import between
from bench.jetstream import V1, V2, events
from bench.measure import NotAvailable
from worker.posts.read import Post, read_post


@pytest.mark.parametrize("path", [V1, V2])
def test_what_it_replays_the_worker_reads(path: str) -> None:
    found = [read_post(each.encode()) for each in events(["one", "zwei ü"], 5, path)]
    texts = [post.text for post in found if isinstance(post, Post)]
    assert texts == ["one", "zwei ü", "one", "zwei ü", "one"]
    assert len({post.id for post in found if isinstance(post, Post)}) == 5


def test_a_rate_is_what_lies_between_the_first_look_and_the_last() -> None:
    found = between([(10.0, 1.0, 100), (11.0, 1.1, 500), (12.0, 1.5, 1100)])
    assert found == pytest.approx((500.0, 500.0))
    with pytest.raises(NotAvailable, match="take more"):
        between([(10.0, 1.0, 900), (12.0, 1.5, 1100)])


@pytest.mark.slow
def test_the_whole_of_it_on_a_few_events() -> None:
    done = CliRunner().invoke(bench, ["collect", "--events", "20000", "--rounds", "1", "--json"])
    if isinstance(done.exception, NotAvailable):
        assert "over too soon" in str(done.exception)  # a fast machine, and few events
        return
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout.splitlines()[-1])["collect"]["rows"]
    assert [row["interface"] for row in rows] == ["v1 /subscribe", "v2 subscribeEvents"]
    assert all(row["events/s"] > 0 for row in rows)
