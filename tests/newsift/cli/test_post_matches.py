"""A receiver that answers as a test says, and the command that posts to it."""

import asyncio
import json
import signal
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from socket import SHUT_RDWR
from threading import Event

import pytest
from kafka import TopicPartition
from yarl import URL

from newsift.cli.post_matches import MatchPoster
from newsift.files.rows import MatchFilter
from tests.broker.clients import consumer
from tests.newsift.cli.test_matches import record
from tests.worker.command_processes import logged
from tests.worker.command_topics import MATCHES, Kafka
from tests.worker.fake_web_server import Handler, Server, serving
from worker.config import Config, KafkaConfig

RESET = 0  # the connection is closed in the place of an answer
PATIENCE_S = 60.0
EVERYTHING = MatchFilter()
Answer = Callable[[str, int], int]  # the post's id, and how often it came before


class Receiver(Server):
    def __init__(self, answer: Answer = lambda *_: 204) -> None:
        super().__init__(Inbox)
        self.answer = answer
        self.requests, self.accepted, self.bodies = list[str](), list[str](), list[bytes]()

    @property
    def url(self) -> str:
        return f"{super().url}/in?key=secret"


class Inbox(Handler):
    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        assert "Authorization" not in self.headers
        assert self.headers["Content-Type"] == "application/json"
        body = self.rfile.read(int(self.headers["Content-Length"]))
        name = json.loads(body)["post"]["id"]
        status = self.server.answer(name, self.server.requests.count(name))
        self.server.requests.append(name)
        self.server.bodies.append(body)
        if status == RESET:
            self.connection.shutdown(SHUT_RDWR)
            return
        if 200 <= status < 300:
            self.server.accepted.append(name)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        raise AssertionError("a redirect was followed")


def post(
    kafka: Kafka, receiver: Receiver, is_done: Callable[[MatchPoster], object],
    filters: MatchFilter = EVERYTHING,
) -> MatchPoster:  # fmt: skip
    """Post from the first match on until it is done; returns the poster."""
    config = Config(kafka=KafkaConfig(bootstrap_servers=str(kafka.address)))

    async def run() -> MatchPoster:
        start = dict.fromkeys(range(3), 0)
        poster = MatchPoster(config, URL(receiver.url), filters, start, first_pause_s=0.01)
        try:
            await poster.start()
            work = asyncio.create_task(poster.run())
            async with asyncio.timeout(PATIENCE_S):
                while not (work.done() or is_done(poster)):
                    await asyncio.sleep(0.01)
            work.cancel()
        finally:
            await poster.stop()
        return poster

    return asyncio.run(run())


def fill(kafka: Kafka, count: int, start: int = 0) -> None:
    kafka.fill(MATCHES, [record(str(number)) for number in range(start, start + count)])


def committed(kafka: Kafka, group: str) -> int:
    with consumer(kafka.address, group_id=group) as client:
        return client.committed(TopicPartition(MATCHES, 0)) or 0


def test_each_match_is_posted_once_in_order_and_committed(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login ada password enigma\n")
    monkeypatch.setenv("HOME", str(tmp_path))
    fill(kafka, 100)
    with serving(Receiver()) as receiver:
        poster = post(kafka, receiver, lambda p: p.accepted == 100)
        assert committed(kafka, poster.group) == 100
        fill(kafka, 1, start=100)
        post(kafka, receiver, lambda p: p.accepted == 1)
    assert receiver.requests == [str(number) for number in range(101)]
    assert receiver.bodies[0] == record("0")


def test_a_new_group_has_committed_where_it_begins_before_it_posts(kafka: Kafka) -> None:
    """Else what it had not committed when it was killed would be read from the first match."""
    begins = list[int | None]()

    def answer(*_: object) -> int:
        group = MatchPoster(Config(), URL(receiver.url), EVERYTHING, {}).group
        with consumer(kafka.address, group_id=group) as client:
            begins.extend(client.committed(TopicPartition(MATCHES, n)) for n in range(3))
        return 204

    fill(kafka, 1)
    with serving(Receiver(answer)) as receiver:
        post(kafka, receiver, lambda p: p.accepted == 1)
    assert begins == [0, 0, 0]


def test_faults_of_the_receiver_wait_and_other_answers_set_a_match_aside(
    kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    faults = dict(enumerate((401, 404, 408, 429, 500, 503, RESET)))
    refusals = {7: 302, 8: 400, 9: 403, 10: 410, 11: 422}

    def answer(name: str, before: int) -> int:
        return refusals.get(int(name), 200 if before else faults.get(int(name), 200))

    fill(kafka, 14)
    with serving(Receiver(answer)) as receiver:
        poster = post(kafka, receiver, lambda p: p.accepted + p.set_aside == 14)
    assert poster.set_aside == len(refusals)
    assert Counter(receiver.requests) == {str(n): 2 if n in faults else 1 for n in range(14)}
    assert committed(kafka, poster.group) == 14
    messages = capsys.readouterr().err
    assert "answers 403 to match 9-ferry (matched-tweets-0-9): it is set aside, 3" in messages
    assert "secret" not in messages


@pytest.mark.parametrize("status", [404, 503, RESET])
def test_a_match_that_always_fails_is_set_aside_while_later_ones_are_accepted(
    kafka: Kafka, status: int
) -> None:
    fill(kafka, 10)
    with serving(Receiver(lambda name, _: status if name in "23" else 200)) as receiver:
        poster = post(kafka, receiver, lambda p: p.set_aside == 2)
    assert receiver.accepted == [*"01456789"]
    # However often one failed before a later one is accepted, it fails four times after that.
    after = receiver.requests[receiver.requests.index("4") :]
    assert [after.count(name) for name in "23"] == [4, 4]
    assert committed(kafka, poster.group) == 10


def test_nothing_is_set_aside_while_the_receiver_is_away(kafka: Kafka) -> None:
    fill(kafka, 5)
    with serving(Receiver(lambda *_: 503)) as receiver:
        first = post(kafka, receiver, lambda _: len(receiver.requests) > 12)
        assert first.set_aside == committed(kafka, first.group) == 0
        receiver.answer = lambda *_: 200
        post(kafka, receiver, lambda p: p.accepted == 5)
    assert receiver.accepted == [*"01234"]


def test_chosen_matches_alone_are_posted(kafka: Kafka) -> None:
    for value in (record("1", ferry=0.5), b"{", record("2", ferry=0.6, fire=0.5)):
        kafka.send(MATCHES, value, partition=0)
    filters = MatchFilter(events=("event of fire",))
    with serving(Receiver()) as receiver:
        poster = post(kafka, receiver, lambda p: p.accepted == 1, filters)
        assert post(kafka, receiver, lambda p: p.accepted == 2).group != poster.group
    content = json.loads(receiver.bodies[0])
    assert [match["seed_id"] for match in content["matches"]] == ["fire"]
    assert content["matched"] == 2


def deletion(post: str) -> bytes:
    named = {"post": {"id": post, "platform": "x"}, "deleted_at": "2026-03-01T10:00:00Z"}
    return json.dumps(named).encode()


def test_deletions_are_posted_and_matches_that_wait_for_them_are_not(kafka: Kafka) -> None:
    kafka.fill(MATCHES, [record("1"), record("2")])
    filters = MatchFilter(events=("event of ferry",))
    receiver = Receiver()

    def answer(name: str, before: int) -> int:
        if name == "1" and not before:
            kafka.fill(MATCHES, [deletion("1"), record("3")])  # after the start
        # Three attempts at most are made before the deletion is read, which has the name too.
        return 503 if name == "1" and before < 3 else 200

    receiver.answer = answer
    with serving(receiver):
        post(kafka, receiver, lambda p: p.accepted == 3, filters)
    assert set(receiver.accepted) == {"1", "2", "3"}
    begin = receiver.bodies.index(deletion("1"))
    assert record("1") in receiver.bodies[:begin]
    assert record("1") not in receiver.bodies[begin:]


def test_matches_of_posts_that_were_deleted_before_a_start_are_not_posted(kafka: Kafka) -> None:
    kafka.fill(MATCHES, [record("1"), record("2"), deletion("1")])
    with serving(Receiver()) as receiver:
        post(kafka, receiver, lambda p: p.accepted == 2)
        kafka.fill(MATCHES, [record("3"), record("4"), deletion("3")])
        post(kafka, receiver, lambda p: p.accepted == 2)  # from where the group has committed
    assert receiver.bodies == [record("2"), deletion("1"), record("4"), deletion("3")]


def test_an_end_does_not_wait_until_all_deletions_are_read(
    kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(kafka, 4_000)  # some batches of 1,000
    config, batches = Config(kafka=KafkaConfig(bootstrap_servers=str(kafka.address))), list[int]()
    has_begun, may_go_on = Event(), Event()

    def add(batch: Sequence[object], _deleted: object) -> None:
        batches.append(len(batch))
        has_begun.set()
        assert may_go_on.wait(PATIENCE_S)

    monkeypatch.setattr("newsift.cli.post_matches.add_deletions", add)

    async def run() -> None:
        poster = MatchPoster(config, URL("http://127.0.0.1:1/"), EVERYTHING, {0: 0, 1: 0, 2: 0})
        starting = asyncio.create_task(poster.start())
        assert await asyncio.to_thread(has_begun.wait, PATIENCE_S)
        starting.cancel()
        await poster.stop()
        may_go_on.set()

    asyncio.run(run())  # ends with its threads
    assert len(batches) == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_the_command_begins_with_what_comes_and_goes_on_there(
    kafka: Kafka, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    fill(kafka, 1)
    with serving(Receiver()) as receiver:
        args = ("matches", "--post-to", receiver.url, "--event", "event of ferry")
        with logged(tmp_path, "newsift", *args) as command:
            command.wait_for("Ctrl-C ends it")
            fill(kafka, 1, start=1)
            command.until(lambda: receiver.accepted == ["1"])
            assert command.leave(number) == code
            assert "accepted: 1, set aside: 0" in command.output
        fill(kafka, 1, start=2)
        with logged(tmp_path, "newsift", *args) as command:
            command.until(lambda: receiver.accepted == ["1", "2"])
