"""Webhooks: signed, in order, again until they are taken; nothing is missing whatever fails."""

import json
import re
import signal
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kafka import TopicPartition

from newsift.broker.server import running
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
from tests.worker.kafka_side import MATCHES, PARTITIONS, Kafka

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
    (tmp_path / "secret").write_text(f"{SECRET}\n")
    fill(kafka, numbers(0, 300))
    with receiving() as receiver:
        args = ("--webhook", receiver.url, *ALL, "--secret-file", tmp_path / "secret")
        with watching(tmp_path, *args, NEWSIFT_WEBHOOK_SECRET="another") as command:
            command.until(lambda: len(receiver.taken) == 300)
            command.until(lambda: committed(kafka) == 300)
            assert command.leave() == 0
    assert SECRET not in command.said
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


def fill_all(kafka: Kafka, start: int, end: int) -> None:
    """Matches of three events, over all partitions."""
    for number in range(start, end):
        value = record(str(number), "A fire", **{"abc"[number % 3]: 0.5})
        kafka.send(MATCHES, value, partition=number // 3 % 3)


@pytest.mark.slow
def test_two_share_the_partitions_and_one_goes_on_alone_without_a_gap(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_KAFKA__SESSION_TIMEOUT_S", "2")
    fill_all(kafka, 0, 30)
    with receiving() as receiver:
        args = ("--webhook", receiver.url, "--since", "1h")
        with watching(tmp_path, *args) as first, watching(tmp_path, *args) as second:
            second.until(lambda: "to read: " in second.said and len(set(receiver.names())) == 30)
            fill_all(kafka, 30, 60)
            first.process.send_signal(signal.SIGKILL)
            fill_all(kafka, 60, 90)
            second.until(lambda: len(receiver.names()) == 90)
            assert second.leave() == 0
    assert sorted(map(int, receiver.names())) == list(range(90))
    assert all(json.loads(post.body)["matches"] for post in receiver.came)


@pytest.mark.slow
def test_a_broker_that_goes_away_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(auto_create=False) as broker:
        kafka = Kafka(broker)
        kafka.make(*PARTITIONS)
        monkeypatch.setenv("NEWSIFT_KAFKA", str(broker))
        monkeypatch.setenv("NEWSIFT_KAFKA__REQUEST_TIMEOUT_S", "4")
        fill_all(kafka, 0, 9)
        with receiving() as receiver:
            args = ("--webhook", receiver.url, "--since", "1h")
            with watching(tmp_path, *args) as command:
                command.until(lambda: len(receiver.taken) == 9)
                broker.stop()
                command.until(lambda: "the broker does not answer: waiting" in command.said)
                broker.start()
                fill_all(kafka, 9, 18)
                command.until(lambda: len(receiver.names()) == 18)
                broker.stop()
                assert command.leave() == 0
                assert "Traceback" not in command.said
                broker.start()
    assert sorted(map(int, receiver.names())) == list(range(18))
