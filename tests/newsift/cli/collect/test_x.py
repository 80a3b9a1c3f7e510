"""`newsift collect x` as a user runs it: rules shown and kept, an end at a limit, a gap told."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker.clients import until
from tests.newsift.cli.collect.process import Start, starting
from tests.newsift.collect.threads import Call, in_a_thread
from tests.newsift.collect.x_side import TOKEN, FakeX, serve_x, tweet_id
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, Kafka

TWEETS = [tweet_id(second) for second in range(1, 31)]


@pytest.fixture
def served() -> Iterator[tuple[FakeX, Call]]:
    with in_a_thread(serve_x()) as result:
        yield result


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    monkeypatch.setenv("NEWSIFT_X_TOKEN", TOKEN)
    with starting() as result:
        yield result


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    file = tmp_path / "rules.txt"
    file.write_text("ferry\tferries\n#fire lang:en\tfires\n")
    return file


def stored(state: Path) -> str:
    return str(json.loads(state.read_bytes())["cursor"]) if state.exists() else ""


def test_rules_are_listed_and_shown_before_they_change(
    newsift: Command, served: tuple[FakeX, Call], rules: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    side, _ = served
    monkeypatch.setenv("NEWSIFT_X_TOKEN", TOKEN)
    side.rules.append({"id": "2", "value": "old rule"})
    listed = newsift("collect", "x", "--url", side.url, "--list-rules")
    assert (listed.code, listed.out) == (0, "ferry\tferries\nold rule\n")
    shown = newsift("collect", "x", "--url", side.url, "--rules", rules, "--dry-run")
    assert (shown.code, shown.out) == (0, "+ #fire lang:en\tfires\n- old rule\n")
    assert shown.err == "newsift: 1 rules to add, 1 to remove, 1 stay; nothing was changed\n"
    assert not side.bodies
    assert not any(request.path.endswith("stream") for request in side.requests)


def test_it_keeps_the_rules_and_ends_at_the_limit(
    kafka: Kafka, served: tuple[FakeX, Call], rules: Path, tmp_path: Path, start: Start
) -> None:
    side, call = served
    process = start("x", "--url", side.url, "--rules", rules, "--limit", 20,
                    "--state", tmp_path / "state.json")  # fmt: skip
    until(side.opened.is_set)
    call(side.post(*TWEETS))
    code, message = process.ended()
    assert code == 0, message
    assert "20 frames of x sent to tweets" in message
    assert TOKEN not in message
    assert {record.key.decode() for record in kafka.records(POSTS)} == set(TWEETS[:20])
    assert [rule["value"] for rule in side.rules] == ["ferry", "#fire lang:en"]
    assert stored(tmp_path / "state.json") == TWEETS[19]


@pytest.mark.parametrize(
    ("token", "rule", "message"),
    [
        ("another", "ferry", "401 (Unauthorized); give the bearer token of an app"),
        (TOKEN, "has:media", "X refuses 'has:media': needs a standalone operator; correct the"),
        (TOKEN, "a" * 2000, "rules.txt line 1: 2,000 characters; X takes 1,024"),
    ],
)
def test_what_is_refused_is_one_line(
    kafka: Kafka, served: tuple[FakeX, Call], tmp_path: Path, start: Start,
    token: str, rule: str, message: str,
) -> None:  # fmt: skip
    file = tmp_path / "rules.txt"
    file.write_text(rule)
    process = start("x", "--url", served[0].url, "--rules", file,
                    "--state", tmp_path / "state.json", NEWSIFT_X_TOKEN=token)  # fmt: skip
    code, output = process.ended()
    assert code == 2
    assert message in output.splitlines()[-1]
    assert [each["value"] for each in served[0].rules] == ["ferry"]


def test_a_token_that_is_not_there_is_one_line(
    newsift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NEWSIFT_X_TOKEN", raising=False)
    done = newsift("collect", "x")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "--token-file FILE" in done.err
