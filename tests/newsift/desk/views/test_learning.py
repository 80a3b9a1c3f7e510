import json
from collections.abc import Iterator
from threading import Event
from typing import Any

import pytest

from encoder import Encoder
from encoder.errors import InputError
from newsift.desk.api import Endpoint
from newsift.desk.session import Desk
from newsift.desk.views import learning
from newsift.operations.profile_training import ProfileTraining
from tests.broker.clients import until
from tests.newsift.cli.events.ferry_event import add_posts, add_seeds
from tests.newsift.desk.desk_client import call, open_desk
from tests.worker.command_topics import SEEDS, Kafka
from tests.worker.fake_command import Command
from tests.worker.shared_encoder import enc, loaded_once

__all__ = ["enc", "loaded_once"]

PROFILE = b"profile|ferry"


@pytest.fixture
def desk(kafka: Kafka, enc: Encoder) -> Iterator[Desk]:
    add_seeds(kafka)
    add_posts(kafka)
    with open_desk(model=True) as desk:
        yield desk


def does(desk: Desk, endpoint: Endpoint, **values: Any) -> Any:
    return call(desk, endpoint, event="ferry", **values)


def train(desk: Desk, hours: int = 24) -> Any:
    does(desk, learning.learn, by="ann", hours=hours, labels=True)
    until(lambda: does(desk, learning.learning_state)["run"]["ended"])
    return does(desk, learning.learning_state)["run"]


def profiles(kafka: Kafka) -> list[Any]:
    result = [record for record in kafka.records(SEEDS) if record.key == PROFILE]
    return [record.value and json.loads(record.value) for record in result]


def test_a_profile_is_that_of_the_command_and_can_be_taken_back(
    desk: Desk, kafka: Kafka, newsift: Command
) -> None:
    state = does(desk, learning.learning_state)
    assert (state["has_profile"], state["labels"]) == (False, {"on": 0, "off": 0})
    data = train(desk)
    assert (data["refusal"], profiles(kafka)) == ("", [])
    proposal = data["proposal"]
    done = newsift("events", "learn", "ferry", "--json", "--yes")
    row = json.loads(done.out)
    for name in ("version", "read", "passes", "per_1000_of_the_background"):
        assert proposal[name] == row[name]
    assert [list(pair) for pair in proposal["creation"]["gained"]] == row["made"]["gained"]
    kafka.send(SEEDS, None, PROFILE)
    until(lambda: not does(desk, learning.learning_state)["has_profile"])
    result = does(desk, learning.publish, by="ann", version=proposal["version"])
    assert (result["profile"], result["version"]) == ("in force", proposal["version"])
    by_command, _, by_desk = profiles(kafka)
    created, command_made = by_desk.pop("made"), by_command.pop("made")
    assert (by_command, created["by"]) == (by_desk, "ann")
    whose = {"at": "", "by": ""}
    assert created | whose == command_made | whose
    until(lambda: does(desk, learning.learning_state)["has_profile"])
    assert does(desk, learning.learning_state)["run"] is None
    back = does(desk, learning.forget, by="ann", version=proposal["version"])
    assert (back["has_profile"], profiles(kafka)[-1]) == (False, None)


def test_one_run_at_a_time(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    go = Event()
    real = ProfileTraining.propose
    monkeypatch.setattr(ProfileTraining, "propose", lambda self: go.wait(30) and real(self))
    does(desk, learning.learn, by="ann", hours=0, labels=False)
    answer = does(desk, learning.learning_state)
    assert (answer["busy"], answer["run"]["ended"]) == ("ferry", False)
    with pytest.raises(InputError, match="is learning"):
        does(desk, learning.learn, by="ben", hours=0, labels=False)
    go.set()
    until(lambda: does(desk, learning.learning_state)["run"]["ended"])
    answer = does(desk, learning.learning_state)
    assert (answer["busy"], answer["run"]["by"]) == (None, "ann")
    assert answer["run"]["proposal"]["read"] == 0


def test_an_outdated_proposal_is_refused(desk: Desk, kafka: Kafka) -> None:
    with pytest.raises(InputError, match="none of 0, 1, 6, 24"):
        does(desk, learning.learn, by="ann", hours=7, labels=False)
    version = train(desk, hours=0)["proposal"]["version"]
    with pytest.raises(InputError, match="is not the last proposal"):
        does(desk, learning.publish, by="ann", version="0" * 12)
    kafka.send(SEEDS, b'{"text": "another article on the ferry", "event": "ferry"}', b"third")
    with pytest.raises(InputError, match="has changed since it learned"):
        does(desk, learning.publish, by="ann", version=version)
    with pytest.raises(InputError, match="has changed; load the page"):
        does(desk, learning.forget, by="ann", version=version)
    assert profiles(kafka) == []


def test_invalid_fields_of_a_record_are_left_out() -> None:
    odd = {"at": ["x"], "by": "b" * 999, "beta": 10**400, "cohesion": float("nan"),
           "posts": [["x", "1"], 5, [[]], ["x"] * 9], "lost": "words",
           "gained": [["a" * 99, 0.5], ["b", 9], ["c"], "d", [1, 0.5]]}  # fmt: skip
    assert learning.creation_row(odd) == {
        "by": "b" * 199 + "…", "posts": [["x", "1"], [], [], ["x", "x"]], "lost": [],
        "gained": [("a" * 39 + "…", 0.5)],
    }  # fmt: skip
