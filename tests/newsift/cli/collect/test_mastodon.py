"""`newsift collect mastodon` as a user runs it: killed, without a broker, refused."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.clients import until
from tests.newsift.cli.collect.process import Start, starting
from tests.newsift.collect.mastodon_side import (
    TOKEN,
    FakeInstance,
    serve_instance,
    status_id,
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


def stored(state: Path) -> str:
    return str(json.loads(state.read_bytes())["cursor"]) if state.exists() else ""


def ids(first: int, last: int) -> list[str]:
    return [status_id(second) for second in range(first, last + 1)]


def found(kafka: Kafka) -> set[str]:
    """The posts of the topic, as the worker reads them."""
    read = [(record.key.decode(), read_post(record.value)) for record in kafka.records(POSTS)]
    assert all(isinstance(post, Post) and post.id == key for key, post in read)
    return {key for key, _ in read}


@pytest.mark.slow
def test_killed_again_and_again_nothing_is_missing(
    kafka: Kafka, served: tuple[FakeInstance, Call], tmp_path: Path, start: Start
) -> None:
    side, call = served
    state = tmp_path / "state.json"
    call(side.post(status_id(0)))
    for first in (1, 101, 201):
        process = start("mastodon", "--url", side.url, "--state", state,
                        NEWSIFT_MASTODON_TOKEN=TOKEN)  # fmt: skip
        until(lambda: side.opened.is_set() and stored(state))
        call(side.post(*ids(first, first + 49)))
        until(lambda first=first: stored(state) == status_id(first + 49))  # type: ignore[misc]
        process.kill()
        call(off(side))
        call(side.post(*ids(first + 50, first + 99)))  # nobody listens
    process = start("mastodon", "--url", side.url, "--state", state, NEWSIFT_MASTODON_TOKEN=TOKEN)
    until(lambda: stored(state) == status_id(300))
    assert process.leave()[0] == 0
    assert found(kafka) - {status_id(0)} == set(ids(1, 300))


async def off(side: FakeInstance) -> None:
    side.cut()


@pytest.mark.slow
def test_killed_between_receiving_and_acknowledgement_nothing_is_missing(
    kafka: Kafka, served: tuple[FakeInstance, Call], tmp_path: Path, start: Start
) -> None:
    side, call = served
    state, token = tmp_path / "state.json", tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    process = start("mastodon", "--url", side.url, "--state", state, "--token-file", token)
    until(lambda: side.opened.is_set() and stored(state))
    call(side.post(*ids(1, 60)))
    until(lambda: stored(state) == status_id(60))
    kafka.address.stop()
    call(side.post(*ids(61, 200)))
    process.kill()
    call(off(side))
    assert stored(state) == status_id(60)
    kafka.address.start()
    process = start("mastodon", "--url", side.url, "--state", state, "--token-file", token)
    until(lambda: stored(state) == status_id(200))
    code, said = process.leave()
    assert code == 0
    assert TOKEN not in said
    assert found(kafka) == set(ids(1, 200))


def test_a_token_that_is_refused_is_one_line(
    kafka: Kafka, served: tuple[FakeInstance, Call], tmp_path: Path, start: Start
) -> None:
    url = served[0].url.with_path("/api/v1/streaming/public")
    code, said = start("mastodon", "--url", url, "--state", tmp_path / "state.json",
                       NEWSIFT_MASTODON_TOKEN="a-stale-token").ended()  # fmt: skip
    last = said.splitlines()[-1]
    assert (code, "stale" in said) == (2, False)
    assert last.startswith("newsift: 127.0.0.1 answers 401 (")
    assert last.endswith("; give a user token with the scope read:statuses")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--url", "https://m.example"), "NEWSIFT_MASTODON_TOKEN: is not set; "),
        (("--url", "m.example"), "--url: 'm.example'; give an address with https"),
        (("--url", "https://m.example", "--stream", "hashtag"), "--stream hashtag: needs a tag"),
        (("--url", "https://m.example", "--token-file", "/dev/null"), "--token-file: '/dev/null'"),
    ],
)
def test_what_cannot_be_is_one_line(
    newsift: Command, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], said: str
) -> None:
    monkeypatch.delenv("NEWSIFT_MASTODON_TOKEN", raising=False)
    done = newsift("collect", "mastodon", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"newsift: {said}")
    assert done.err.count("\n") == 1
