"""Draws of matches for a promise: each is a test of the event, and all share one error rate."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, cast

import pytest
from msgspec import structs

from newsift.operations import labels as drawing
from newsift.operations.events import next_test
from newsift.operations.labels import FrozenQueue, QueueRequest, draw_start, freeze_queue
from newsift.operations.matches import MatchLog, MatchRow
from newsift.operations.promises import weigh_evidence
from newsift.statistics.labels import DEFAULT_GOAL, MAX_TESTS, Label, QueueName
from newsift.statistics.queues import ExactShare, is_certify_post
from tests.newsift.desk.match_records import HOUR, NOON, moment, record
from tests.worker.event_profiles import profile
from tests.worker.small_encoder import Mail
from worker.config import Config
from worker.posts.times import milliseconds, utc
from worker.seeds.profile import Profile

STORM = Profile(**profile("storm", {"flood": "flood"}))
NAMES = [str(n) for n in range(200) if is_certify_post(("plain", str(n)))]
REQUEST = QueueRequest("storm", "ann", "certify", 0, "nonce")


@pytest.fixture(autouse=True)
def at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "now_ms", lambda: NOON + HOUR)


def rows(names: Sequence[str], at: int = NOON, of: Profile = STORM) -> list[MatchRow]:
    """One match of each post, one millisecond after the other."""
    made = {"seed_id": of.id, "seed_version": of.version}
    log = MatchLog(2**27)
    log.apply(
        [
            cast(Any, Mail(json.dumps(each).encode(), timestamp=at + n))
            for n, name in enumerate(names)
            for each in [record(name, 0.5, at + n, event="storm", match=made, group=name)]
        ],
        NOON + HOUR,
    )
    return log.draw_rows("storm")


def freeze(
    matches: Sequence[MatchRow], labels: Sequence[Label] = (), profile: Profile = STORM,
    **changes: Any,
) -> FrozenQueue:  # fmt: skip
    request = replace(REQUEST, **changes)
    return freeze_queue(cast(Any, None), Config(), request, matches, labels, profile)


def answer(frozen: FrozenQueue, count: int = 1, at: int = NOON) -> list[Label]:
    """Labels of the first posts that a queue asks about, all on."""
    labels, verdicts = list[Label](), dict[Any, bool]()
    for _ in range(count):
        question = frozen.queue.next(verdicts)
        assert question is not None
        post = question.candidate.post
        verdicts[post.post_id] = True
        labels.append(
            Label("on", "storm", post, "ann", moment(at), question.drawn, question.probability,
                  queue=question.queue)
        )  # fmt: skip
    return labels


def name_of(frozen: FrozenQueue) -> QueueName:
    (label,) = answer(frozen)
    assert label.queue
    return label.queue


def test_a_draw_continues_and_another_one_is_another_test() -> None:
    old, new = rows(NAMES[:60]), rows(NAMES[60:], NOON + 100)
    first = freeze(old)
    labels = answer(first, 3)
    name = name_of(first)
    assert (name.test, name.profile) == (1, STORM.version)
    assert draw_start(labels, STORM.version) == min(row.came for row in old)
    again = freeze([*old, *new], labels)
    assert name_of(again) == name
    assert set(again.matches) == {row.post_id for row in old}
    assert weigh_evidence(labels, [*old, *new], STORM, DEFAULT_GOAL).matches == 60
    later = [structs.replace(label, at=moment(NOON - 12 * HOUR)) for label in labels]
    other = Profile(**profile("storm", {"flood": "other words"}))
    fresh = [
        freeze([*old, *new], labels, redraw=True), freeze([*old, *new], later),
        freeze(rows(NAMES, of=other), labels, other),
    ]  # fmt: skip
    assert [name_of(each).test for each in fresh] == [2, 2, 2]
    both = [*labels, *answer(fresh[0], 5)[3:]]
    evidence = weigh_evidence(both, [*old, *new], STORM, DEFAULT_GOAL)
    assert (evidence.target.test, evidence.matches) == (2, len(NAMES))
    assert name_of(freeze([*old, *new], both, redraw=True)).test == 3
    most = [structs.replace(labels[0], queue=structs.replace(name, test=MAX_TESTS))]
    assert next_test(STORM, most) == MAX_TESTS  # a number beyond it would be refused


def test_no_way_back_makes_a_test_the_first_again() -> None:
    """A promise that was given up, or a threshold set by hand, leaves the labels."""
    labels = answer(freeze(rows(NAMES)), 2)
    promised = replace(STORM, threshold=0.4, promise={"test": 1})
    for given_up in (STORM, promised, replace(promised, promise=None)):
        learned = replace(Profile(**profile("storm", {"flood": "new"})), before=given_up.history())
        frozen = freeze(rows(NAMES, of=learned), labels, learned)
        assert name_of(frozen).test == 2


def test_matches_that_can_prove_nothing_are_no_test() -> None:
    few, all_rows = rows(NAMES[:18]), rows(NAMES)
    labels = answer(freeze(few), 5)
    assert labels[0].queue
    assert not labels[0].queue.test
    assert name_of(freeze(all_rows, labels)).test == 1
    assert len(freeze(all_rows, labels).matches) == len(NAMES)


def test_what_is_read_completely_is_known_exactly_for_a_promise_too() -> None:
    matches = rows([str(n) for n in range(24)])
    labels = answer(freeze(matches), 24)
    assert {label.drawn for label in labels} == {"certify", "learn"}
    labels[:3] = [structs.replace(label, label="off") for label in labels[:3]]
    assert weigh_evidence(labels[:-1], matches, STORM, DEFAULT_GOAL).exact is None
    assert weigh_evidence(labels, matches, STORM, DEFAULT_GOAL).exact == ExactShare(21, 24)


def test_a_draw_of_a_file_always_continues() -> None:
    matches = rows(NAMES)
    labels = answer(freeze(matches, is_file=True), 2, NOON - 99 * HOUR)
    assert name_of(freeze(matches, labels, is_file=True, redraw=True)).test == 1


def test_the_matches_of_a_draw_stay_while_the_window_moves_on() -> None:
    """Weighed with fewer of the old ones each hour, the same labels had many chances."""
    matches = rows(NAMES)
    labels = answer(freeze(matches), 20)
    name = labels[0].queue
    assert name
    assert name.since
    older = rows(["a", "b", "c"], NOON - 100)
    of_all, of_draw = (
        weigh_evidence(labels, each, STORM, DEFAULT_GOAL) for each in ([*older, *matches], matches)
    )
    assert of_all == of_draw
    assert milliseconds(utc(name.since)) == matches[0].came


def test_a_post_is_on_the_event_only_if_all_who_judged_it_say_so() -> None:
    matches = rows(NAMES)
    labels = answer(freeze(matches), 40)
    proven = weigh_evidence(labels, matches, STORM, DEFAULT_GOAL)
    assert proven.threshold is not None
    others = [structs.replace(each, by="ben", drawn="given", label="off") for each in labels]
    disputed = weigh_evidence([*labels, *others], matches, STORM, DEFAULT_GOAL)
    assert (disputed.threshold, disputed.labels, disputed.on) == (None, 40, 0)
    alone = weigh_evidence(others, matches, STORM, DEFAULT_GOAL)
    assert (alone.threshold, alone.labels) == (None, 0)
