import base64
import os
import time
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path

import pytest

from newsift.operations.dead_letters import retry_lock
from tests.newsift.cli.test_matches import rows
from tests.worker.command_processes import started
from tests.worker.command_topics import POSTS, REJECTED, Kafka
from tests.worker.fake_command import Command
from tests.worker.small_encoder import Mail
from worker.config.load import load
from worker.match.records import to_dead_letter
from worker.posts.read import Reason

HOUR = 3_600_000
BAD = b'{"id": \xff'


def reject(
    kafka: Kafka, offset: int, value: bytes | None = BAD, reason: Reason = Reason.BAD_JSON,
    attempt: int = 1, at: int | None = None, key: bytes | None = b"k",
) -> str:  # fmt: skip
    headers = [("attempt", str(attempt).encode())] if attempt > 1 else []
    post = Mail(value, POSTS, 2, offset, 0, key, headers)
    letter = to_dead_letter(0, post, reason, f"detail {offset}")
    kafka.send(REJECTED, letter.value, letter.key, letter.headers, at=at, partition=0)
    return f"tweets-2-{offset}"


def test_list_shows_place_reason_and_attempt(newsift: Command, kafka: Kafka) -> None:
    reject(kafka, 1, at=1_764_000_000_123)
    reject(kafka, 2, b"", Reason.EMPTY_VALUE, attempt=3)
    reject(kafka, 3, b"x" * 9, Reason.POST_BYTES)
    result = rows(newsift("dead-letters", "list", "--json").out)
    output = [
        (row["id"], row["reason"], row["attempt"], row["bytes"], row["detail"]) for row in result
    ]
    assert output == [
        ("tweets-2-1", "bad_json", 1, len(BAD), "detail 1"),
        ("tweets-2-2", "empty_value", 3, 0, "detail 2"),
        ("tweets-2-3", "limits.post_bytes", 1, 9, "detail 3"),
    ]
    assert result[0]["kafka_time"] == "2025-11-24T16:00:00.123Z"
    done = newsift("dead-letters", "list")
    assert [line.split()[0] for line in done.out.splitlines()] == [row["id"] for row in result]
    assert done.err == "newsift: dead letters: 3: bad_json 1, empty_value 1, limits.post_bytes 1\n"


def test_list_can_be_narrowed(newsift: Command, kafka: Kafka) -> None:
    now = int(time.time() * 1000)
    reject(kafka, 1, at=now - 5 * HOUR)
    reject(kafka, 2, at=now - 3 * HOUR)
    reject(kafka, 3, reason=Reason.NO_ID, at=now - HOUR)

    def ids(*args: str) -> list[str]:
        return [row["id"] for row in rows(newsift("dead-letters", "list", "--json", *args).out)]

    assert ids("--since", "4h") == ["tweets-2-2", "tweets-2-3"]
    assert ids("--reason", "bad_json") == ["tweets-2-1", "tweets-2-2"]
    assert ids("--reason", "bad_json", "--since", "4h") == ["tweets-2-2"]
    done = newsift("dead-letters", "list", "--reason", "no_text")
    assert done.err == "newsift: dead letters: none\n"


def test_show_gives_the_bytes(newsift: Command, kafka: Kafka) -> None:
    name = reject(kafka, 1, b"caf\xc3\xa9 \x1b[31m")
    odd = reject(kafka, 2)
    shown = rows(newsift("dead-letters", "show", name, "--json").out)[0]
    assert (shown["key"], shown["value"]) == ("k", "café \x1b[31m")
    shown = rows(newsift("dead-letters", "show", odd, "--json").out)[0]
    assert base64.b64decode(shown["value"]["base64"]) == BAD
    output = newsift("dead-letters", "show", odd).out
    assert "bad_json" in output
    assert '{"id": \\xff' in output
    assert "\x1b" not in newsift("dead-letters", "show", name).out


def test_retry_sends_the_bytes_again_and_counts_up(newsift: Command, kafka: Kafka) -> None:
    first, second = reject(kafka, 1, key=None), reject(kafka, 2, b"two", attempt=2)
    reject(kafka, 3)
    done = newsift("dead-letters", "retry", second, first)
    assert (done.code, done.err) == (0, "newsift: 2 sent again\n")
    assert done.out == f"{first}  attempt 2\n{second}  attempt 3\n"
    result = {record.value: (record.key, record.headers) for record in kafka.records(POSTS)}
    assert result == {
        BAD: (None, [("attempt", b"2"), ("retry.of", first.encode())]),
        b"two": (b"k", [("attempt", b"3"), ("retry.of", second.encode())]),
    }


def test_retries_many_and_counts_what_is_left(newsift: Command, kafka: Kafka) -> None:
    reject(kafka, 1)
    reject(kafka, 2, attempt=3)
    reject(kafka, 3, reason=Reason.POST_BYTES)
    reject(kafka, 4, b"no id", reason=Reason.NO_ID)
    done = newsift("dead-letters", "retry", "--reason", "bad_json")
    assert done.out == "tweets-2-1  attempt 2\n"
    assert done.err == "newsift: 1 sent again; not retried: 1 (it has had 3 attempts)\n"
    done = newsift("dead-letters", "retry", "--all")
    assert [line.split()[0] for line in done.out.splitlines()] == ["tweets-2-4"]
    assert "1 (the original is gone)" in done.err
    assert "1 (it was sent again before)" in done.err
    assert len(kafka.records(POSTS)) == 2


def test_a_retry_carries_the_headers_of_the_input(newsift: Command, kafka: Kafka) -> None:
    output = [("reason", b"no_id"), ("source", b"tweets-0-1"), ("attempt", b"2"),
            ("input.trace", b"\x00"), ("input.attempt", b"2"),
            ("input.retry.of", b"x")]  # fmt: skip
    kafka.send(REJECTED, BAD, headers=output)
    assert newsift("dead-letters", "retry", "--all").code == 0
    assert kafka.records(POSTS)[0].headers == [
        ("trace", b"\x00"), ("attempt", b"3"), ("retry.of", b"tweets-0-1"),
    ]  # fmt: skip


def test_a_letter_without_value_is_read_from_the_original(newsift: Command, kafka: Kafka) -> None:
    kafka.send(POSTS, b"another", partition=2)
    kafka.send(POSTS, b"large", partition=2)
    kafka.send(POSTS, b"replaced", partition=1)
    name = reject(kafka, 1, b"large", reason=Reason.POST_BYTES)
    reject(kafka, 0, b"not what is there", reason=Reason.POST_BYTES)
    reject(kafka, 2, b"beyond the end", reason=Reason.POST_BYTES)
    done = newsift("dead-letters", "retry", "--all")
    assert (done.code, done.out) == (0, f"{name}  attempt 2\n")
    assert "2 (the original is gone)" in done.err
    again = [record for record in kafka.records(POSTS) if ("attempt", b"2") in record.headers]
    assert [record.value for record in again] == [b"large"]
    done = newsift("dead-letters", "retry", name)
    assert (done.code, "it was sent again before" in done.err) == (2, True)


@pytest.mark.parametrize("source", ["tweets-0", "secrets-0-0", "tweets-0-" + "9" * 400])
def test_a_retry_reads_only_posts(newsift: Command, kafka: Kafka, source: str) -> None:
    headers = [("source", source.encode()), ("reason", b"limits.post_bytes"), ("bytes", b"6"),
               ("sha256", sha256(b"secret").hexdigest().encode())]  # fmt: skip
    kafka.send(REJECTED, None, b"k", headers)
    done = newsift("dead-letters", "retry", "--all")
    assert (done.code, "1 (the original is gone)" in done.err) == (0, True)
    assert kafka.records(POSTS) == []


def test_retries_take_turns(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_CACHE", str(tmp_path))
    name = reject(kafka, 1)
    config = load(None, dict(os.environ)).config
    with ExitStack() as stack:
        with retry_lock(config):
            second = stack.enter_context(started("dead-letters", "retry", "--all"))
            assert second.stderr is not None
            assert "another retry is running" in second.stderr.readline()
            kafka.send(POSTS, BAD, b"k", headers=[("attempt", b"2"), ("retry.of", name.encode())])
        out, err = second.communicate(timeout=60)
    assert (second.returncode, out) == (0, "")
    assert err == "newsift: 0 sent again; not retried: 1 (it was sent again before)\n"
    assert len(kafka.records(POSTS)) == 1


def test_a_forged_retry_does_not_count(newsift: Command, kafka: Kafka) -> None:
    name = reject(kafka, 1)
    kafka.send(POSTS, b"other bytes", headers=[("retry.of", name.encode())])
    assert newsift("dead-letters", "retry", name).code == 0
    assert [record.value for record in kafka.records(POSTS)].count(BAD) == 1
    done = newsift("dead-letters", "retry", name)
    assert (done.code, "it was sent again before" in done.err) == (2, True)


def test_a_place_in_a_new_topic_is_another_letter(newsift: Command, kafka: Kafka) -> None:
    for value, written in ((BAD, b"1700000000000"), (b"other", b"1700000001000")):
        output = [("reason", b"bad_json"), ("source", b"tweets-0-1"), ("timestamp", written)]
        for _ in range(2):
            kafka.send(REJECTED, value, headers=output)
    done = newsift("dead-letters", "retry", "--all")
    assert done.err == "newsift: 2 sent again\n"
    assert {record.value for record in kafka.records(POSTS)} == {BAD, b"other"}
    assert newsift("dead-letters", "retry", "--all").out == ""
