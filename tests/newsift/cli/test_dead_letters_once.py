"""`newsift dead-letters retry`: each letter once, whoever else is at it, and no more is told."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from newsift.operations.dead_letters import retry_lock
from tests.newsift.cli.test_dead_letters import BAD, reject
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, REJECTED, Kafka
from worker.config.load import load, overridden
from worker.errors import RunError

RETRY = "import sys; from newsift.cli import run; sys.exit(run(['dead-letters', 'retry', '--all']))"


def test_two_at_once_go_in_turn(
    kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_CACHE", str(tmp_path))
    name = reject(kafka, 1)
    config = load(None, dict(os.environ)).config
    with retry_lock(config):
        second = subprocess.Popen([sys.executable, "-c", RETRY], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)  # fmt: skip
        assert second.stderr is not None
        assert "another retry is under way" in second.stderr.readline()
        kafka.send(POSTS, BAD, b"k", headers=[("attempt", b"2"), ("retry.of", name.encode())])
    out, err = second.communicate(timeout=60)
    assert (second.returncode, out) == (0, "")
    assert err == "newsift: 0 sent again; not retried: it was sent again before 1\n"
    assert len(kafka.records(POSTS)) == 1


def test_who_retries_elsewhere_waits_for_nobody(kafka: Kafka) -> None:
    with retry_lock(load(None, overridden(os.environ, "elsewhere:9092")).config):
        done = subprocess.run([sys.executable, "-c", RETRY], capture_output=True, text=True,
                              timeout=60)  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "newsift: 0 sent again\n")


def test_without_a_place_for_a_lock_it_goes_on(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_CACHE", "/dev/null/nowhere")
    name = reject(kafka, 1)
    assert newsift("dead-letters", "retry", "--all").out == f"{name}  attempt 2\n"


def test_nobody_can_say_that_it_was_sent_who_has_not_sent_its_bytes(
    newsift: Command, kafka: Kafka
) -> None:
    name = reject(kafka, 1)
    kafka.send(POSTS, b"other bytes", headers=[("retry.of", name.encode())])
    assert newsift("dead-letters", "retry", name).code == 0
    assert [record.value for record in kafka.records(POSTS)].count(BAD) == 1
    done = newsift("dead-letters", "retry", name)
    assert (done.code, "it was sent again before" in done.err) == (2, True)


def test_nothing_to_send_is_told(newsift: Command, kafka: Kafka) -> None:
    done = newsift("dead-letters", "retry", "--all")
    assert (done.code, done.out, done.err) == (0, "", "newsift: 0 sent again\n")


def test_the_same_place_in_a_topic_made_again_is_another_letter(
    newsift: Command, kafka: Kafka
) -> None:
    for value, written in ((BAD, b"1700000000000"), (b"other", b"1700000001000")):
        output = [("reason", b"bad_json"), ("source", b"tweets-0-1"), ("timestamp", written)]
        for _ in range(2):
            kafka.send(REJECTED, value, headers=output)
    done = newsift("dead-letters", "retry", "--all")
    assert done.err == "newsift: 2 sent again\n"
    assert {record.value for record in kafka.records(POSTS)} == {BAD, b"other"}
    assert newsift("dead-letters", "retry", "--all").out == ""


class FullBroker:
    """An outbox whose broker acknowledges two records and takes no third."""

    delivered = 0

    def send(self, *_: object) -> None:
        """Take a record; the first is acknowledged when the second is sent."""
        if self.delivered == 2:
            raise RunError("the broker is full")
        self.delivered = 1 if self.delivered == 0 else 2

    def drained(self, _seconds: float) -> int:
        """Wait for what is under way."""
        return self.delivered


def test_what_the_broker_does_not_have_is_not_listed(
    newsift: Command, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def full(_config: object) -> Iterator[FullBroker]:
        yield FullBroker()

    names = [reject(kafka, n) for n in range(4)]
    monkeypatch.setattr("newsift.operations.dead_letters.sending", full)
    done = newsift("dead-letters", "retry", "--all")
    assert done.code == 1
    assert [line.split()[0] for line in done.out.splitlines()] == names[:2]
    assert done.err == "newsift: 2 sent again\nnewsift: the broker is full\n"
