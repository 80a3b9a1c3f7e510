"""Webhooks: signed, in order, again until they are taken; nothing is missing whatever fails."""

import re
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition

from tests.newsift.cli.test_matches import record
from tests.newsift.cli.watch.receiver import (
    GARBAGE,
    RESET,
    SECRET,
    STALL,
    Post,
    Receiver,
    receiving,
    watching,
)
from tests.worker.fake import Command
from tests.worker.kafka_side import MATCHES, Kafka

FERRY, FIRE = "event of ferry", "event of fire"
PAGE = Path(__file__).parents[4] / "docs" / "watch.md"
ALL = ("--since", "1h")


def fill(kafka: Kafka, names: Sequence[str], **seeds: float) -> None:
    kafka.fill(MATCHES, [record(name, "A fire", **seeds) for name in names])


def numbers(start: int, end: int) -> list[str]:
    return [str(number) for number in range(start, end)]


def documented_check() -> Callable[[str, str, bytes], bool]:
    """What docs/watch.md has a receiver do."""
    [code] = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    names: dict[str, Any] = {}
    exec(code, names)
    result: Callable[[str, str, bytes], bool] = names["is_from_newsift"]
    return result


def committed(kafka: Kafka, group: str = "newsift-watch") -> int:
    with kafka.consumer(group_id=group) as consumer:
        return consumer.committed(TopicPartition(MATCHES, 0)) or 0


def test_each_match_is_posted_once_signed_and_in_order(kafka: Kafka, tmp_path: Path) -> None:
    fill(kafka, numbers(0, 300))
    with receiving() as receiver, watching(tmp_path, "--webhook", receiver.url, *ALL) as command:
        command.until(lambda: len(receiver.taken) == 300)
        command.until(lambda: committed(kafka) == 300)
        assert command.leave() == 0
    assert [post.name for post in receiver.came] == numbers(0, 300)
    assert all(post.is_signed for post in receiver.came)
    first = receiver.came[0]
    assert first.headers["Content-Type"] == "application/json"
    assert first.headers["Newsift-Match"] == "0-ferry"
    assert first.headers["Newsift-Schema"] == "newsift.match/1"
    assert "Cookie" not in receiver.came[-1].headers
    assert not Post(first.headers, first.body + b" ").is_signed
    check = documented_check()
    assert check(SECRET, first.headers["Newsift-Signature"], first.body)
    assert not check("another", first.headers["Newsift-Signature"], first.body)


@pytest.mark.slow
def test_what_fails_is_sent_again_and_nothing_is_missing(kafka: Kafka, tmp_path: Path) -> None:
    failures = {"0": 500, "1": 429, "2": RESET, "3": 404, "4": 302, "5": 408, "6": GARBAGE}

    def answer(post: Post, before: int) -> int:
        return 200 if before else failures.get(post.name, 200)

    fill(kafka, numbers(0, 10))
    with (
        receiving(answer) as receiver,
        watching(tmp_path, "--webhook", receiver.url, *ALL) as command,
    ):
        command.until(lambda: len(receiver.taken) == 10)
        assert command.leave() == 0
    assert [post.name for post in receiver.taken] == numbers(0, 10)
    assert len(receiver.came) == 17
    assert "match 6-ferry again" in command.said
    assert "/in" not in command.said  # of many receivers the path is the password


@pytest.mark.slow
@pytest.mark.parametrize("status", [400, 409, 413, 415, 422])
def test_a_match_that_is_refused_for_itself_holds_up_no_other(
    kafka: Kafka, tmp_path: Path, status: int
) -> None:
    fill(kafka, numbers(0, 5))
    with (
        receiving(lambda post, _: status if post.name == "2" else 200) as receiver,
        watching(tmp_path, "--webhook", receiver.url, *ALL) as command,
    ):
        command.until(lambda: committed(kafka) == 5)
    assert (len(receiver.came), receiver.names()) == (5, ["0", "1", "3", "4"])
    assert f"answers {status} to match 2-ferry: it is passed over" in command.said


@pytest.mark.slow
def test_a_receiver_that_is_gone_ends_it_and_what_it_did_not_take_stays(
    kafka: Kafka, tmp_path: Path
) -> None:
    fill(kafka, numbers(0, 5))
    with (
        receiving(lambda post, _: 410 if post.name == "3" else 200) as receiver,
        watching(tmp_path, "--webhook", receiver.url, *ALL) as command,
    ):
        assert command.ended() == 2
    assert "answers 410" in command.said.splitlines()[-1]
    assert committed(kafka) == 3


@pytest.mark.slow
def test_an_event_that_is_not_taken_holds_up_no_other_and_comes_later_in_order(
    kafka: Kafka, tmp_path: Path
) -> None:
    """Far more than a lane holds wait in the topic, while another event's go on."""
    closed = [True]
    fires, ferries = list[str](), list[str]()
    for start in range(0, 1_000, 100):
        fires += numbers(start, start + 50)
        fill(kafka, numbers(start, start + 50), fire=0.5)
        ferries += numbers(start + 50, start + 100)
        fill(kafka, numbers(start + 50, start + 100), ferry=0.5)
    with (
        receiving(lambda post, _: 503 if post.event == FIRE and closed else 200) as receiver,
        watching(tmp_path, "--webhook", receiver.url, *ALL) as command,
    ):
        command.until(lambda: len(receiver.taken) == 500)
        assert receiver.names(FIRE) == []
        assert committed(kafka) == 0
        closed.clear()
        command.until(lambda: len(receiver.taken) == 1_000)
        fill(kafka, ["last"], fire=0.5, ferry=0.6)
        command.until(lambda: committed(kafka) == 1_001)
        assert command.leave() == 0
    assert receiver.names(FIRE) == [*fires, "last"]
    assert receiver.names(FERRY) == [*ferries, "last"]


@pytest.mark.slow
def test_a_death_between_the_post_and_the_commit_loses_nothing(
    kafka: Kafka, tmp_path: Path
) -> None:
    fill(kafka, numbers(0, 200))
    with receiving() as receiver:
        args = ("--webhook", receiver.url, *ALL)
        for taken in (20, 90):
            with watching(tmp_path, *args) as command:
                command.until(partial(has_taken, receiver, taken))
                command.process.send_signal(signal.SIGKILL)
                assert command.ended() == -signal.SIGKILL
        with watching(tmp_path, *args) as command:
            command.until(lambda: committed(kafka) == 200)
            assert command.leave() == 0
    assert sorted(receiver.names(), key=int) == numbers(0, 200)


@pytest.mark.slow
def test_the_secret_of_a_file_signs_and_shows_nowhere(kafka: Kafka, tmp_path: Path) -> None:
    file = tmp_path / "secret"
    file.write_text(f"{SECRET}\n")
    fill(kafka, ["1"])
    with receiving() as receiver:
        args = ("--webhook", receiver.url, *ALL, "--secret-file", file)
        with watching(tmp_path, *args, NEWSIFT_WEBHOOK_SECRET="another") as command:
            command.until(lambda: receiver.taken)
            assert command.leave() == 0
    assert receiver.taken[0].is_signed
    assert SECRET not in command.said


@pytest.mark.slow
def test_a_stalled_receiver_does_not_keep_the_command_from_its_end(
    kafka: Kafka, tmp_path: Path
) -> None:
    fill(kafka, ["1"])
    with (
        receiving(lambda *_: STALL) as receiver,
        watching(tmp_path, "--webhook", receiver.url, *ALL) as command,
    ):
        command.until(lambda: receiver.came)
        assert command.leave() == 0
    assert committed(kafka) == 0


@pytest.mark.slow
def test_a_new_group_begins_with_what_comes_and_filters_as_matches_does(
    kafka: Kafka, tmp_path: Path
) -> None:
    fill(kafka, ["before"])
    args = ("--event", FIRE, "--group", "other")
    with receiving() as receiver, watching(tmp_path, "--webhook", receiver.url, *args) as command:
        command.until(lambda: committed(kafka, "other") == 1)
        fill(kafka, ["1"], ferry=0.5)
        fill(kafka, ["2"], ferry=0.6, fire=0.5)
        kafka.fill(MATCHES, [b"{", record("3\r\nA: b", fire=0.5), record("4" * 101, fire=0.5)])
        fill(kafka, ["5"], fire=0.5)
        command.until(lambda: committed(kafka, "other") == 7)
        assert command.leave() == 0
    assert [(post.name, post.event) for post in receiver.taken] == [("2", FIRE), ("5", FIRE)]
    assert command.said.count("is no match: it is passed over") == 3


def has_taken(receiver: Receiver, many: int) -> bool:
    return len(receiver.names()) >= many


HERE = ("--webhook", "http://127.0.0.1:1/")


@pytest.mark.parametrize(
    ("args", "secret", "output"),
    [
        ((), "s", "--webhook URL"),
        (("--webhook", "newsroom"), "s", "--webhook: "),
        (("--webhook", "ftp://a/b"), "s", "--webhook: "),
        (HERE, "", "NEWSIFT_WEBHOOK_SECRET: "),
        (HERE, "\udcff", "NEWSIFT_WEBHOOK_SECRET: "),
        ((*HERE, "--secret-file", "/"), "s", "--secret-file: "),
        ((*HERE, "--group", "newsift-ingest"), "s", "--group "),
        ((*HERE, "--group", " "), "s", "group"),
        (("--listen", "here"), "s", "--listen "),
        (("--listen", "127.0.0.1:99999"), "s", "--listen "),
        (("--listen", ":8080"), "s", "--listen "),
    ],
)
def test_nonsense_is_refused_in_one_line(
    newsift: Command, monkeypatch: pytest.MonkeyPatch, args: Sequence[str], secret: str, output: str
) -> None:
    monkeypatch.setenv("NEWSIFT_WEBHOOK_SECRET", secret)
    result = newsift("watch", *args)
    assert (result.code, result.out, len(result.err.splitlines())) == (2, "", 1)
    assert output in result.err


def test_a_broker_that_is_away_is_told_of_in_one_line(newsift: Command) -> None:
    result = newsift("watch", "--listen", "0", "--kafka", "127.0.0.1:1")
    assert (result.code, len(result.err.splitlines())) == (1, 1)
    assert "nobody listens there" in result.err
