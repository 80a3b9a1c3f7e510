"""Problems: each has a line with a remedy, and what is well has none."""

from dataclasses import replace
from typing import Any

import pytest

from newsift.desk.health import NOT_YET, HealthSnapshot, grows, problems_of, summary_of
from tests.newsift.desk.matched import HOSTILE

GROUP = {"all_members": 1, "all_partitions": 4, "lag": 7}
WORKER = {"address": "127.0.0.1:6066", "away": "", "ready": True, "reason": "", "paused": 0.0,
          "model": "m"}  # fmt: skip
TOPIC = {"topic": "tweets", "setting": "cleanup.policy", "actual": "compact", "required": "delete",
         "why": "w", "fix": "kafka-configs.sh", "serious": True}  # fmt: skip
WELL = HealthSnapshot("", GROUP, False, [WORKER], [])


def changed(**parts: Any) -> HealthSnapshot:
    return replace(WELL, **parts)


def worker(**parts: Any) -> HealthSnapshot:
    return changed(workers=[WORKER | parts])


@pytest.mark.parametrize(
    "snapshot",
    [
        WELL,
        worker(away="x", ready=False),  # the broker knows it, its web server is elsewhere
        worker(offsets_lost=0.0, open_transaction_s=5.0),
        changed(topics=[TOPIC | {"serious": False}]),
    ],
)
def test_all_well(snapshot: HealthSnapshot) -> None:
    assert summary_of(snapshot) == {"state": "good", "text": "all well", "problems": []}


@pytest.mark.parametrize(
    ("snapshot", "words"),
    [
        (changed(group=GROUP | {"all_members": 0}), "start one with: faust -A worker worker"),
        (changed(labels_left_out=1_234), "1,234 labels are left out"),
        (changed(grows=True), "7 wait; start another worker, up to 4"),
        (worker(ready=False, reason="reads seeds"), "is not ready: reads seeds"),
        (worker(paused=1.0), "127.0.0.1:6066 is paused"),
        (worker(offsets_lost=1234.0), "lost 1,234 posts"),
        (worker(open_transaction_s=500.0), "transaction"),
        (changed(workers=[WORKER, WORKER | {"model": "n"}]), "run different models"),
        (changed(topics=[TOPIC]), "must be delete; kafka-configs.sh"),
        (changed(away="nobody listens", topics=[TOPIC]), "does not answer: nobody listens"),
    ],
)
def test_each_problem_has_its_line(snapshot: HealthSnapshot, words: str) -> None:
    (problem,) = problems_of(snapshot)
    assert words in problem
    assert summary_of(snapshot)["state"] == "bad"


def test_before_the_first_poll_nothing_is_known() -> None:
    assert summary_of(changed(away=NOT_YET, group=None))["state"] == "unknown"


def test_texts_of_strangers_are_single_lines_of_bounded_length() -> None:
    odd = HOSTILE * 200
    problems = problems_of(changed(workers=[WORKER | {"ready": False, "reason": odd}] * 100))
    assert len(problems) == 50
    assert all(each.isprintable() and len(each) <= 400 for each in problems)


@pytest.mark.parametrize(
    ("lags", "expected"),
    [
        ([5, 5, 6, 7, 9, 9, 9, 9, 9, 9, 9, 9, 10], True),
        ([5] * 13, False),
        ([5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 15], False),
        ([5, 6, 7], False),  # too short a time to tell
        ([], False),
    ],
)
def test_a_lag_grows_if_it_never_falls(lags: list[int], expected: bool) -> None:
    assert grows([(100.0 + 5 * n, lag) for n, lag in enumerate(lags)]) is expected
