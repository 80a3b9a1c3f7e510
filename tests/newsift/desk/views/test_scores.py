"""The page of scores on a broker, compared with `newsift seeds set`."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import encoder
from encoder.errors import InputError
from encoder.model_directory import write_model
from newsift.desk import seed_editor
from newsift.desk.session import Desk
from newsift.desk.threads import lock_or_busy
from newsift.desk.views import scores
from tests.encoder.small import small_model
from tests.newsift.desk.client import call, open_desk, until
from tests.newsift.desk.matched import record
from tests.worker.fake import Command
from tests.worker.kafka_side import LABELS, MATCHES, POSTS, SEEDS, Kafka
from tests.worker.learned import profile_of
from worker.config import load_config
from worker.errors import BrokerError

TEXTS = {"river": "storm flood river city", "rain": "storm storm flood"}


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    write_model(tmp_path / "small", small_model())
    monkeypatch.setenv("NEWSIFT_MODEL__NAME", str(tmp_path / "small"))
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND_RATE", "0.05")
    return str(tmp_path / "small")


@pytest.fixture
def desk(kafka: Kafka, model: str) -> Iterator[Desk]:
    for name, text in TEXTS.items():
        kafka.send(SEEDS, json.dumps({"text": text, "event": "flood"}).encode(), name.encode())
    with open_desk(model=True, matches=True) as desk:
        yield desk


def cuts_of(kafka: Kafka) -> dict[str, float | None]:
    records = {row.key.decode(): json.loads(row.value) for row in kafka.records(SEEDS)}
    return {name: value.get("threshold") for name, value in records.items()}


def set_threshold(desk: Desk, threshold: float | None) -> Any:
    return call(desk, scores.set_threshold, event="flood", by="ann", threshold=threshold)


def thresholds(desk: Desk) -> list[float]:
    result: list[float] = call(desk, scores.scores, event="flood")["thresholds"]
    return result


def test_a_threshold_is_set_for_all_seeds_and_removed_again(
    desk: Desk, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    automatic = thresholds(desk)
    assert automatic[0] < automatic[1]
    monkeypatch.setattr(seed_editor, "lock_or_busy", partial(lock_or_busy, seconds=0.05))
    with desk.editor.topic(), pytest.raises(BrokerError, match="another change is being published"):
        set_threshold(desk, 0.75)
    assert cuts_of(kafka) == {"river": None, "rain": None}
    assert set_threshold(desk, 0.75)["compared"] == 2
    assert cuts_of(kafka) == {"river": 0.75, "rain": 0.75}
    until(lambda: thresholds(desk) == [0.75, 0.75])
    assert not call(desk, scores.scores, event="flood")["is_automatic"]
    set_threshold(desk, None)
    assert cuts_of(kafka) == {"river": None, "rain": None}
    until(lambda: thresholds(desk) == automatic)
    assert call(desk, scores.scores, event="flood")["is_automatic"]


def test_a_new_threshold_ends_the_promise_as_with_the_command(
    desk: Desk, kafka: Kafka, newsift: Command
) -> None:
    enc = encoder.load(load_config().model.name, device="cpu", threads=1)
    profile = profile_of(enc, "flood", {name: ("", text) for name, text in TEXTS.items()})
    promise = {"precision": 0.8, "confidence": 0.9, "rate": 0.001}
    value = json.dumps(profile.record() | {"threshold": 0.5, "promise": promise}).encode()
    kafka.send(SEEDS, value, profile.id.encode())
    until(lambda: call(desk, scores.scores, event="flood")["state"] == "in force")
    assert call(desk, scores.scores, event="flood")["promise"]["threshold"] == 0.5
    set_threshold(desk, 0.625)
    by_desk = kafka.records(SEEDS)[-1]
    kafka.send(SEEDS, value, profile.id.encode())
    assert newsift("seeds", "set", profile.id, "--threshold", 0.625).code == 0
    by_command = kafka.records(SEEDS)[-1]
    assert (by_desk.key, by_desk.value) == (by_command.key, by_command.value)
    assert "promise" not in json.loads(by_desk.value)
    assert cuts_of(kafka) == {"river": None, "rain": None, profile.id: 0.625}


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"threshold": 1.5}, "threshold"),
        ({"threshold": "0.5"}, "threshold"),
        ({"threshold": 0.5, "event": "none"}, "there is none of this name"),
    ],
)
def test_an_invalid_threshold_is_refused(
    desk: Desk, kafka: Kafka, values: dict[str, Any], text: str
) -> None:
    with pytest.raises(InputError, match=text):
        call(desk, scores.set_threshold, **{"event": "flood", "by": "ann", **values})
    assert cuts_of(kafka) == {"river": None, "rain": None}


def test_invalid_records_leave_the_page_whole(desk: Desk, kafka: Kafka) -> None:
    odd = {"seed_id": "river", "seed_version": "?", "threshold": 1e308}
    version = desk.model.events()["flood"].seeds[1].version
    rows = [record("1", 0.9, -5, "flood", match=odd | more, processed_at="never")
            for more in ({}, {"seed_version": version})]  # fmt: skip
    kafka.fill(MATCHES, [*(json.dumps(row).encode() for row in rows), b"{", b""])
    kafka.fill(POSTS, [b"{}"])
    kafka.send(LABELS, b"{}", b"?")
    until(lambda: desk.matches.counts("flood").number >= 2)
    assert call(desk, scores.scores, event="flood")["matched"] == 1
    assert call(desk, scores.near, event="flood")["near"] == []
