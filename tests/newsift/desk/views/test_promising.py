"""What the page shows of an event's labels, and promises: as `newsift events promise` does."""

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from encoder import Encoder
from encoder.errors import InputError
from newsift.desk.evidence import Evidence
from newsift.desk.session import Desk
from newsift.desk.views import judge as promising
from newsift.desk.views.judge import promise, threshold_evidence
from newsift.desk.views.learning import learn, publish
from newsift.operations.actor import acting_as
from newsift.operations.events import PromiseTarget
from newsift.operations.promises import PromiseEvidence
from newsift.operations.times import now_ms
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
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka
from tests.worker.loaded_once import enc, loaded_once
from worker.config import load_config
from worker.errors import ConflictError
from worker.seeds.profile import Profile

__all__ = ["enc", "loaded_once"]

NEEDED = labels_missing(0, 0, 0.8, confidence_of_version(0.9, 1))
DEADLINE_S = 60.0


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    """A desk with two seeds of the ferry, which has no profile yet."""
    add_seeds(kafka)
    made = Desk(load_config())
    made.model.start()
    made.mirrors.start()
    assert made.mirrors.of_seeds.ready.wait(DEADLINE_S)
    assert made.mirrors.of_labels.ready.wait(DEADLINE_S)
    yield made
    made.stop()


def asks(desk: Desk, **wished: Any) -> Any:
    """What the page is shown."""
    return threshold_evidence.answer(
        desk, threshold_evidence.question({"event": "ferry"} | wished, False)
    )


def until(desk: Desk, holds: Callable[[Any], object], **wished: Any) -> Any:
    """What the page is shown, once this is so."""
    end = time.monotonic() + DEADLINE_S
    while not holds(found := asks(desk, **wished)):
        assert time.monotonic() < end, found
        time.sleep(0.02)
    return found


def promises(desk: Desk, **wished: Any) -> Any:
    """Set a promise."""
    given = {"event": "ferry", "by": "Åsa", "precision": 0.8, "confidence": 0.9}
    with acting_as("Åsa"):  # as the site has it
        return promise.answer(desk, promise.question(given | wished, True))


def gets_a_profile(desk: Desk) -> str:
    """Publish the first profile as the page does; its version."""
    given: Any = {"event": "ferry", "by": "Åsa"}
    desk.model.wait()
    learn.answer(desk, learn.question(given | {"hours": 0, "labels": False}, True))
    end = time.monotonic() + DEADLINE_S
    while (lesson := desk.lessons.of("ferry")) is None or lesson.ended is None:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert (lesson.refused, lesson.danger) == ("", "")
    assert lesson.proposal is not None
    version = lesson.proposal.profile.version
    publish.answer(desk, publish.question(given | {"version": version}, True))
    return version


def test_a_profile_comes_first_and_is_the_one_that_was_shown(desk: Desk, kafka: Kafka) -> None:
    assert asks(desk) == {"profile": None, "loading": False}
    with pytest.raises(InputError, match="a promise is of a profile"):
        promises(desk, threshold=0.5)
    version = gets_a_profile(desk)
    made = published(kafka)
    assert (made.version, made.made["by"], made.promise) == (version, "Åsa", None)
    found = until(desk, lambda found: found["profile"] == version)
    assert (found["threshold"], found["stale"], found["shown"].matches) == (None, "", 0)
    assert "no post has matched this version" in found["says"]


def test_what_is_shown_is_what_the_command_says_and_what_is_set(
    desk: Desk, kafka: Kafka, enc: Encoder, newsift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    gets_a_profile(desk)
    add_ferry_posts(kafka)
    own = list(certifying(match_all(kafka, enc)))
    found = until(desk, lambda found: found["profile"] and found["shown"].matches)
    assert (found["shown"].missing, found["shown"].threshold) == (NEEDED, None)
    assert found["hourly"] == {"now": None, "then": None, "window": "in the minute seen"}
    later = now_ms() + 6 * 60_000
    monkeypatch.setattr("newsift.desk.views.judge.now_ms", lambda: later)
    found = asks(desk)
    assert found["hourly"]["window"] == "in the 6 minutes seen"
    assert found["hourly"]["now"] == pytest.approx(600, rel=0.3)
    cut = first_cut(own)
    for record in [record for record in own if record.matches[0].score >= cut][:NEEDED]:
        label(kafka, record, "on")
    found = until(desk, lambda found: found["shown"].threshold is not None)
    assert (found["shown"].threshold, found["shown"].labels) == (cut, NEEDED)
    assert found["hourly"]["then"] >= 25
    (row,) = json.loads(f"[{newsift('events', 'promise', 'ferry', '--json', '--yes').out}]")
    assert row["threshold"] == cut
    assert newsift("events", "forget", "ferry", "--yes").code == 0
    until(desk, lambda found: found["promise"] is None)
    with pytest.raises(InputError, match="look at it, and promise that"):
        promises(desk, threshold=0.99)
    with pytest.raises(InputError, match="can show no more"):
        promises(desk, threshold=cut, precision=0.95)
    assert published(kafka).promise is None
    assert promises(desk, threshold=cut) == {"threshold": cut}
    made = published(kafka)
    assert made.promise is not None
    told = {"by": "Åsa", "labels": NEEDED, "precision": 0.8, "confidence": 0.9}
    assert made.promise | told == made.promise
    found = until(desk, lambda found: found["promise"])
    assert (found["threshold"], found["promise"]) == (cut, made.promise)
    assert found["hourly"]["now"] == found["hourly"]["then"]


def test_a_profile_that_changed_while_labels_were_read_is_not_overwritten(
    desk: Desk, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    gets_a_profile(desk)
    other = json.dumps(published(kafka).record() | {"threshold": 0.75}).encode()

    def read(_desk: Desk, profile: Profile, *_: float) -> Evidence:
        kafka.send(SEEDS, other, b"profile|ferry")
        shown = PromiseEvidence(0.5, 0, False, 20, 20, 30)
        return Evidence(profile, (), {}, PromiseTarget.of(profile), shown)

    until(desk, lambda found: found["profile"])
    monkeypatch.setattr(promising, "_evidence", read)
    with pytest.raises(ConflictError, match="was published by somebody else"):
        promises(desk, threshold=0.5)
    assert (published(kafka).threshold, published(kafka).promise) == (0.75, None)


def test_a_stale_profile_is_told_and_promises_nothing(
    desk: Desk, kafka: Kafka, enc: Encoder
) -> None:
    gets_a_profile(desk)
    desk.model.wait()
    kafka.send(SEEDS, None, b"fire")
    found = until(desk, lambda found: found["stale"])
    assert found["profile"]
    with pytest.raises(InputError, match="its profile is stale"):
        promises(desk, threshold=0.5)


@pytest.mark.parametrize("wished", [{"precision": "1"}, {"confidence": "0"}, {"precision": "x"}])
def test_no_other_share_is_promised(desk: Desk, wished: Any) -> None:
    with pytest.raises(InputError, match=next(iter(wished))):
        asks(desk, **wished)
