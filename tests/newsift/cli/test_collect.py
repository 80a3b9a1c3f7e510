import gzip
import json
import os
import re
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.broker.clients import until
from tests.newsift.collect import fake_jetstream as jet
from tests.newsift.collect.fake_jetstream import JetstreamSide, address, serve_jetstream
from tests.newsift.collect.fake_platform import in_a_thread
from tests.newsift.collect.fake_x import TOKEN, serve_x, tweet_id
from tests.newsift.collect.watched_folder import posts, put
from tests.worker.command_processes import Logged, logged
from tests.worker.command_topics import POSTS, Kafka
from tests.worker.fake_command import Command

COUNT = 400
TWEETS = [tweet_id(second) for second in range(1, 31)]


Start = Callable[..., Logged]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setenv("NEWSIFT_X_TOKEN", TOKEN)
    with ExitStack() as stack:

        def begin(*args: object, **env: str) -> Logged:
            own = {**os.environ, **env}
            return stack.enter_context(logged(tmp_path, "newsift", "collect", *args, env=own))

        yield begin


@pytest.fixture
def jetstream() -> Iterator[JetstreamSide]:
    with in_a_thread(serve_jetstream(JetstreamSide(1, COUNT))) as (result, _):
        yield result


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "posts"
    folder.mkdir()
    return folder


def stored(state: Path) -> str:
    return str(json.loads(state.read_bytes())["cursor"]) if state.exists() else "-1"


def keys(kafka: Kafka) -> list[str]:
    return [record.key.decode() for record in kafka.records(POSTS)]


@pytest.mark.slow
def test_a_broker_that_returns_gets_the_posts_of_its_absence(
    kafka: Kafka, jetstream: JetstreamSide, tmp_path: Path, start: Start
) -> None:
    side, state = jetstream, tmp_path / "state.json"
    process = start("bluesky", "--url", side.url, "--state", state)
    until(lambda: int(stored(state)) == side.cursor_of(COUNT - 1))
    kafka.address.stop()
    side.events += [jet.event(number, 1) for number in range(COUNT, COUNT + 50)]
    until(lambda: side.sent == COUNT + 50)
    kafka.address.start()
    until(lambda: int(stored(state)) == side.cursor_of(COUNT + 49))
    assert process.leave() == 0
    assert "450 frames of bluesky sent to tweets" in process.output
    assert set(keys(kafka)) == {address(number) for number in range(COUNT + 50)}


def test_ctrl_c_keeps_the_cursor(
    kafka: Kafka, jetstream: JetstreamSide, tmp_path: Path, start: Start
) -> None:
    state = tmp_path / "folder" / "state.json"
    process = start("bluesky", "--url", jetstream.url, "--state", state)
    until(lambda: len(jetstream.requests) == 1 and jetstream.sent == COUNT)
    assert process.leave(signal.SIGINT) == 130
    first, *_, last = process.output.splitlines()
    assert (str(state) in first, last) == (True, "newsift: interrupted")
    assert int(stored(state)) == jetstream.cursor_of(len(set(keys(kafka))) - 1)


@pytest.mark.slow
def test_serves_health_and_metrics(kafka: Kafka, jetstream: JetstreamSide, start: Start) -> None:
    process = start("bluesky", "--url", jetstream.url, NEWSIFT_WEB__PORT="0")
    process.wait_for("/metrics")
    url = re.search(r"http://\S+/(?=metrics)", process.output)
    assert url

    def read(name: str) -> bytes:
        with urlopen(f"{url[0]}{name}", timeout=30) as answer:
            return bytes(answer.read())

    until(lambda: b'acknowledged_total{source="bluesky"} 400' in read("metrics"))
    assert json.loads(read("readyz")) == {"ready": True, "reason": ""}
    assert process.leave() == 0


def test_a_dry_run_prints_and_keeps_nothing(start: Start, place: Path, tmp_path: Path) -> None:
    put(place, "a.jsonl", posts("a", 2))
    process = start("files", place, "--dry-run")
    assert process.wait() == 0
    assert posts("a", 2).decode() in process.output
    assert not (tmp_path / "state").exists()


def test_once_sends_each_file_once(
    newsift: Command, kafka: Kafka, place: Path, tmp_path: Path
) -> None:
    put(place, "a.jsonl", posts("a", 3), age=90)
    put(place, "b.jsonl.gz", gzip.compress(posts("b", 2)))
    expected = {"a-0", "a-1", "a-2", "b-0", "b-1"}
    done = newsift("collect", "files", place, "--once")
    assert (done.code, "5 frames of files sent" in done.err) == (0, True)
    assert Counter(keys(kafka)) == Counter(expected)
    put(place, "d.jsonl", posts("d", 1))
    put(tmp_path / "other", "a.jsonl", posts("other", 1))  # each folder has its state
    for folder in (f"{place}/../posts/", tmp_path / "other"):
        assert newsift("collect", "files", folder, "--once").code == 0
    assert Counter(keys(kafka)) == Counter(expected | {"d-0", "other-0"})


def test_a_folder_that_was_not_looked_at_is_not_reported(
    newsift: Command, kafka: Kafka, place: Path, tmp_path: Path
) -> None:
    put(place, "a.jsonl", posts("a", 1), age=90)
    state = tmp_path / "state.json"
    state.write_bytes(b"{}")
    done = newsift("collect", "files", place, "--once", "--state", state)
    assert (done.code, done.err.count("\n"), [*keys(kafka)]) == (2, 1, [])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"a.csv": b"x,y\n1,2\n"}, "1 of 2 files could not be read"),
        ({"a.jsonl": posts("a", 5) + b"{\n"}, "1 of 8 rows could not be read"),
    ],
)
def test_unreadable_files_and_rows_fail_at_the_end(
    newsift: Command, kafka: Kafka, place: Path, files: dict[str, bytes], message: str
) -> None:
    for name, content in files.items():
        put(place, name, content, age=90)
    put(place, "b.jsonl", posts("b", 2))
    done = newsift("collect", "files", place, "--once")
    assert (done.code, message in done.err.splitlines()[-1]) == (1, True), done.err
    assert {"b-0", "b-1"} <= set(keys(kafka))


@pytest.mark.slow
def test_reads_files_until_sigterm(start: Start, kafka: Kafka, place: Path, tmp_path: Path) -> None:
    put(place, "a.jsonl", posts("a", 2))
    process = start("files", place)
    until(lambda: len(keys(kafka)) == 2)
    put(tmp_path, "b.part", posts("b", 2)).rename(place / "b.jsonl")  # renamed into place
    until(lambda: len(keys(kafka)) == 4)
    slow = place / "slow.jsonl"
    with slow.open("wb") as out:
        for row in range(3):
            out.write(posts("slow", row + 1, row))
            out.flush()
            os.utime(slow, (time.time(),) * 2)
    until(lambda: len(keys(kafka)) == 7)
    assert process.leave() == 0, process.output
    names = ["a-0", "a-1", "b-0", "b-1", "slow-0", "slow-1", "slow-2"]
    assert Counter(keys(kafka)) == Counter(names)


def test_ends_at_the_limit(kafka: Kafka, tmp_path: Path, start: Start) -> None:
    state = tmp_path / "state.json"
    with in_a_thread(serve_x()) as (side, portal):
        process = start("x", "--url", side.url, "--limit", 20, "--state", state)
        until(side.opened.is_set)
        with suppress(ConnectionResetError):  # it hangs up at the limit, while X goes on
            portal.call(side.post, *TWEETS)
        assert process.wait() == 0, process.output
    assert "20 frames of x sent to tweets" in process.output
    assert TOKEN not in process.output
    assert set(keys(kafka)) == set(TWEETS[:20])
    assert stored(state) == TWEETS[19]
