"""What the page shows of an event's labels, and promises: as `newsift events promise` does."""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from encoder import Encoder
from encoder.errors import InputError
from newsift.desk.promise_tests import PromiseTest
from newsift.desk.session import Desk
from newsift.desk.views import judge as promising
from newsift.desk.views.judge import promise, promise_test
from newsift.desk.views.learning import learn, publish
from newsift.operations.actor import acting_as
from newsift.operations.events import PromiseTarget
from newsift.operations.promises import PromiseEvidence
from newsift.statistics.promise import confidence_of_version, labels_missing
from tests.newsift.cli.events.ferry import add_seeds
from tests.newsift.cli.events.promised import (
    add_ferry_posts,
    certifying,
    first_cut,
    label,
    match_all,
    published,
)
from tests.newsift.desk.client import call, open_desk, until
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from tests.worker.loaded_once import enc, loaded_once
from worker.errors import ConflictError
from worker.seeds.profile import Profile

__all__ = ["enc", "loaded_once"]

NEEDED = labels_missing(0, 0, 0.8, confidence_of_version(0.9, 1))


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    add_seeds(kafka)
    with open_desk(model=True) as desk:
        yield desk


def asks(desk: Desk, **values: Any) -> Any:
    return call(desk, promise_test, event="ferry", **values)


def wait_for(desk: Desk, condition: Callable[[Any], object]) -> Any:
    until(lambda: condition(asks(desk)))
    return asks(desk)


def set_promise(desk: Desk, **values: Any) -> Any:
    request = {"event": "ferry", "by": "Åsa", "precision": 0.8, "confidence": 0.9}
    with acting_as("Åsa"):  # as the site does
        return call(desk, promise, **request | values)


def publish_profile(desk: Desk) -> str:
    values: Any = {"event": "ferry", "by": "Åsa"}
    call(desk, learn, **values, hours=0, labels=False)
    until(lambda: not desk.training.busy_event)
    run = desk.training.run_of("ferry")
    assert run is not None
    assert run.proposal is not None
    assert (run.refusal, run.danger) == ("", "")
    version = run.proposal.profile.version
    call(desk, publish, **values, version=version)
    return version


def test_the_page_promises_what_the_command_promises(
    desk: Desk, kafka: Kafka, enc: Encoder, newsift: Command
) -> None:
    assert asks(desk) == {"profile": None, "loading": False}
    with pytest.raises(InputError, match="a promise is of a profile"):
        set_promise(desk, threshold=0.5)
    with pytest.raises(InputError, match="precision"):
        asks(desk, precision="1")
    publish_profile(desk)
    add_ferry_posts(kafka)
    own = list(certifying(match_all(kafka, enc)))
    result = wait_for(desk, lambda result: result["profile"] and result["result"].matches)
    assert (result["result"].missing, result["result"].threshold) == (NEEDED, None)
    assert result["hourly"]["window"] == "in the minute seen"
    cut = first_cut(own)
    for record in [record for record in own if record.matches[0].score >= cut][:NEEDED]:
        label(kafka, record, "on")
    result = wait_for(desk, lambda result: result["result"].threshold is not None)
    assert (result["result"].threshold, result["result"].labels) == (cut, NEEDED)
    (row,) = json.loads(f"[{newsift('events', 'promise', 'ferry', '--json', '--yes').out}]")
    assert row["threshold"] == cut
    assert newsift("events", "forget", "ferry", "--yes").code == 0
    wait_for(desk, lambda result: result["promise"] is None)
    with pytest.raises(InputError, match="look at it, and promise that"):
        set_promise(desk, threshold=0.99)
    with pytest.raises(InputError, match="can show no more"):
        set_promise(desk, threshold=cut, precision=0.95)
    assert published(kafka).promise is None
    assert set_promise(desk, threshold=cut) == {"threshold": cut}
    created = published(kafka)
    assert created.promise is not None
    answer = {"by": "Åsa", "labels": NEEDED, "precision": 0.8, "confidence": 0.9}
    assert created.promise | answer == created.promise
    result = wait_for(desk, lambda result: result["promise"])
    assert (result["threshold"], result["promise"]) == (cut, created.promise)


def test_a_profile_that_changes_during_a_promise_is_not_overwritten(
    desk: Desk, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish_profile(desk)
    other = json.dumps(published(kafka).record() | {"threshold": 0.75}).encode()

    def read(_desk: Desk, profile: Profile, *_: float) -> PromiseTest:
        kafka.send(SEEDS, other, b"profile|ferry")
        data = PromiseEvidence(0.5, 0, False, 20, 20, 30)
        return PromiseTest(profile, (), {}, PromiseTarget.of(profile), data)

    wait_for(desk, lambda result: result["profile"])
    monkeypatch.setattr(promising, "_test", read)
    with pytest.raises(ConflictError, match="was published by somebody else"):
        set_promise(desk, threshold=0.5)
    assert (published(kafka).threshold, published(kafka).promise) == (0.75, None)


def test_a_stale_profile_promises_nothing(desk: Desk, kafka: Kafka) -> None:
    publish_profile(desk)
    kafka.send(SEEDS, None, b"fire")
    result = wait_for(desk, lambda result: result["stale"])
    assert result["profile"]
    with pytest.raises(InputError, match="its profile is stale"):
        set_promise(desk, threshold=0.5)
