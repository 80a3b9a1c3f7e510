"""`newsift collect mastodon` as a user runs it: killed, without a broker, refused."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.newsift.cli.collect.process import Start, starting
from tests.newsift.collect.mastodon_side import (
    FakeInstance,
    serve_instance,
)
from tests.newsift.collect.threads import Call, in_a_thread
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, Kafka
from worker.posts.read import Post, read_post


@pytest.fixture
def served() -> Iterator[tuple[FakeInstance, Call]]:
    with in_a_thread(serve_instance()) as found:
        yield found


@pytest.fixture
def start() -> Iterator[Start]:
    with starting() as found:
        yield found


def found(kafka: Kafka) -> set[str]:
    """The posts of the topic, as the worker reads them."""
    read = [(record.key.decode(), read_post(record.value)) for record in kafka.records(POSTS)]
    assert all(isinstance(post, Post) and post.id == key for key, post in read)
    return {key for key, _ in read}


def test_a_token_that_is_refused_is_one_line(
    kafka: Kafka, served: tuple[FakeInstance, Call], tmp_path: Path, start: Start
) -> None:
    url = served[0].url.with_path("/api/v1/streaming/public")
    code, message = start("mastodon", "--url", url, "--state", tmp_path / "state.json",
                       NEWSIFT_MASTODON_TOKEN="a-stale-token").ended()  # fmt: skip
    last = message.splitlines()[-1]
    assert (code, "stale" in message) == (2, False)
    assert last.startswith("newsift: 127.0.0.1 answers 401 (")
    assert last.endswith("; give a user token with the scope read:statuses")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--url", "https://m.example"), "NEWSIFT_MASTODON_TOKEN: is not set; "),
        (("--url", "m.example"), "--url: 'm.example'; give an address with https"),
        (("--url", "https://m.example", "--stream", "hashtag"), "--stream hashtag: needs a tag"),
        (("--url", "https://m.example", "--token-file", "/dev/null"), "--token-file: '/dev/null'"),
    ],
)
def test_what_cannot_be_is_one_line(
    newsift: Command, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], message: str
) -> None:
    monkeypatch.delenv("NEWSIFT_MASTODON_TOKEN", raising=False)
    done = newsift("collect", "mastodon", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"newsift: {message}")
    assert done.err.count("\n") == 1
