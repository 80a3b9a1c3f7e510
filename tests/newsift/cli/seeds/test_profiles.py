"""What the commands say of profiles: which is in force, for whom, and why one is not."""

import json
from typing import Any

import pytest

import encoder
from encoder import Encoder
from newsift.desk.model import Model
from newsift.operations.seed_topic import seed_topic
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from tests.worker.learned import profile_of
from worker.config import Config, load_config
from worker.seeds.background import sides_of
from worker.seeds.profile import Profile
from worker.seeds.state import ControlState

ARTICLES = {"dam": ("Dam breaks", "The Orrell dam broke."), "rain": ("", "Rain on Orrell.")}
KEY = b"profile|flood"


@pytest.fixture(scope="module")
def enc() -> Encoder:
    return encoder.load("default", device="cpu")


def send(kafka: Kafka) -> None:
    """The articles of an event, and another."""
    for name, (title, text) in ARTICLES.items():
        record = {"title": title, "text": text, "event": "flood"}
        kafka.send(SEEDS, json.dumps(record).encode(), name.encode())
    kafka.send(SEEDS, b'{"text": "A cat show."}', b"cats")


def listed(newsift: Command) -> dict[str, dict[str, Any]]:
    done = newsift("seeds", "list", "--json")
    assert done.code == 0, done.err
    return {row["id"]: row for row in map(json.loads, done.out.splitlines())}


def learned(enc: Encoder, **changes: Any) -> Profile:
    return profile_of(enc, "flood", ARTICLES, **changes)


def test_which_is_in_force(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
    send(kafka)
    kafka.send(SEEDS, learned(enc).value(), KEY)
    result = listed(newsift)
    assert {name: row["state"] for name, row in result.items()} == {
        "cats": "live", "dam": "replaced", "rain": "replaced", "profile|flood": "live",
    }  # fmt: skip
    assert result["profile|flood"]["seeds"] == ["dam", "rain"]
    assert result["profile|flood"]["seed_version"] == learned(enc).version
    assert result["dam"]["by"] == "profile|flood"
    (line,) = [row for row in newsift("seeds", "list").out.splitlines() if "profile|" in row]
    assert line.split()[1] == "live"
    assert line.endswith("for dam, rain")
    assert "2 live, 2 articles by their event's profile" in newsift("status").out
    assert json.loads(newsift("status", "--json").out)["seeds"] == {
        "live": 2, "expired": 0, "paused": 0, "replaced": 2,
        "refused": {}, "stale": {}, "unknown": {},
    }  # fmt: skip


def test_it_ends_with_its_last_seed(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
    send(kafka)
    kafka.send(SEEDS, learned(enc).value(), KEY)
    for name, year in (("dam", "1999"), ("rain", "2001")):
        done = newsift("seeds", "set", name, "--expires-at", f"{year}-01-01T00:00:00Z")
        assert done.code == 0
    row = listed(newsift)["profile|flood"]
    assert (row["state"], row["expires_at"]) == ("expired", "2001-01-01T00:00:00.000Z")


def test_a_stale_one_says_why(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
    send(kafka)
    kafka.send(SEEDS, learned(enc).value(), KEY)
    assert newsift("seeds", "set", "rain", "--paused").code == 0
    result = listed(newsift)
    assert (result["dam"]["state"], result["rain"]["state"]) == ("live", "paused")
    assert (result["profile|flood"]["state"], result["profile|flood"]["reason"]) == (
        "stale", "seeds: 'rain' is paused",
    )  # fmt: skip
    message = newsift("status").out
    assert "2 live, 1 paused, 1 stale" in message
    assert "stale         profile|flood: seeds: 'rain' is paused" in message
    assert "seeds: 'rain' is paused" in newsift("seeds", "list").out
    assert "stale" in newsift("seeds", "show", "profile|flood").out


def test_one_whose_rate_the_background_cannot_tell_lets_its_seeds_serve(
    newsift: Command, kafka: Kafka, enc: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    posts, calibrating = len(enc.background), len(sides_of(enc.background)[1])
    rate = 0.5 / (calibrating + (posts - calibrating) / 2)  # enough for articles alone
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND_RATE", f"{rate:.9f}")
    send(kafka)
    kafka.send(SEEDS, learned(enc).value(), KEY)
    config = load_config()
    model = Model(config, lambda: control(config), lambda: None)
    model.start()
    model.wait()
    at_desk = {row["id"]: row["state"] for row in model.rows()}
    result = listed(newsift)
    assert {name: row["state"] for name, row in result.items()} == at_desk
    assert (at_desk["profile|flood"], at_desk["dam"]) == ("refused", "live")
    assert result["profile|flood"]["reason"].startswith("matching.background_rate: ")
    assert result["dam"]["auto_threshold"] > 0
    (row,) = map(json.loads, newsift("seeds", "show", "dam", "--json").out.splitlines())
    assert row["state"] == "live"


def control(config: Config) -> ControlState:
    with seed_topic(config) as topic:
        return topic.state()


def test_a_model_that_is_not_there_leaves_it_open(
    newsift: Command, kafka: Kafka, enc: Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    send(kafka)
    kafka.send(SEEDS, learned(enc).value(), KEY)
    monkeypatch.setenv("NEWSIFT_MODEL__NAME", "/nowhere")
    row = listed(newsift)["profile|flood"]
    assert row["state"] == "unknown"
    assert "no such directory" in row["reason"]
    assert newsift("status").code == 0


def test_another_model_s_and_a_refused_one(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
    send(kafka)
    kafka.send(SEEDS, json.dumps(learned(enc).record() | {"model": "0" * 64}).encode(), KEY)
    assert listed(newsift)["profile|flood"]["reason"].startswith("model: learned with '0000")
    kafka.send(SEEDS, b'{"event": "flood"}', KEY)
    result = listed(newsift)
    assert (result["profile|flood"]["state"], result["dam"]["state"]) == ("refused", "live")
    assert "1 refused" in newsift("status").out


def test_its_threshold_is_set_and_its_promise_lapses(
    newsift: Command, kafka: Kafka, enc: Encoder
) -> None:
    send(kafka)
    given = learned(enc, threshold=0.3, promise={"precision": 0.8}, made={"by": "anna"})
    kafka.send(SEEDS, given.value(), KEY)
    done = newsift("seeds", "set", "profile|flood", "--threshold", "0.5")
    assert done.code == 0, done.err
    last = kafka.records(SEEDS)[-1]
    assert last.headers == [("schema", b"newsift.profile/1")]
    record = json.loads(last.value)
    expected = given.record() | {"threshold": 0.5}
    del expected["promise"]
    assert record == expected
    refused = newsift("seeds", "set", "profile|flood", "--paused")
    assert (refused.code, "only the threshold can be set" in refused.err) == (2, True)


def test_it_is_shown_exported_imported_and_removed(
    newsift: Command, kafka: Kafka, enc: Encoder, tmp_path: Any
) -> None:
    send(kafka)
    kafka.send(SEEDS, learned(enc, made={"by": "anna"}).value(), KEY)
    (row,) = map(json.loads, newsift("seeds", "show", "profile|flood", "--json").out.splitlines())
    assert (row["state"], row["model"], row["made"]) == ("live", enc.digest, {"by": "anna"})
    assert newsift("seeds", "export", tmp_path / "all.jsonl").code == 0
    assert newsift("seeds", "remove", "profile|flood").code == 0
    assert listed(newsift)["dam"]["state"] == "live"
    done = newsift("seeds", "import", tmp_path / "all.jsonl")
    assert (done.code, "refused" in done.err) == (0, False)
    assert listed(newsift)["dam"]["state"] == "replaced"


def test_no_seed_takes_the_prefix(newsift: Command, kafka: Kafka, tmp_path: Any) -> None:
    (tmp_path / "a.txt").write_text("The dam broke.")
    done = newsift("seeds", "add", tmp_path / "a.txt", "--id", "profile|a", "--force")
    assert (done.code, kafka.records(SEEDS)) == (2, [])
    assert "profile| begins the ids of profiles; give the seed another id" in done.err


def test_one_whose_seed_was_removed_is_shown(newsift: Command, kafka: Kafka, enc: Encoder) -> None:
    send(kafka)
    kafka.send(SEEDS, learned(enc).value(), KEY)
    kafka.send(SEEDS, None, b"rain")
    done = newsift("seeds", "show", "profile|flood", "--json")
    assert (done.code, json.loads(done.out)["state"]) == (0, "stale"), done.err
