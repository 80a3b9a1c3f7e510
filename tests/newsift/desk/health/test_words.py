"""What is wrong in words: each fault has its line with a remedy, and what is well has none."""

from dataclasses import replace
from typing import Any

import pytest

from newsift.desk.alerts import NOT_YET, HealthSnapshot, alerts_of, summary_of
from newsift.desk.health import grows
from tests.newsift.desk.matched import HOSTILE

GROUP = {"all_members": 1, "all_partitions": 4, "lag": 7}
WORKER = {"address": "127.0.0.1:6066", "away": "", "ready": True, "reason": "",
          "drift": "none: scores and pass rates are about as promised", "paused": 0.0,
          "seed_set": "a", "model": "m", "refused_seeds": 0}  # fmt: skip
COLLECTOR = {"source": "bluesky", "running": True, "ran_lately": True, "gaps": 0}
TOPIC = {"topic": "tweets", "setting": "cleanup.policy", "found": "compact", "wanted": "delete",
         "why": "w", "fix": "kafka-configs.sh", "serious": True}  # fmt: skip
WELL = HealthSnapshot("k:9092", "", GROUP, False, [WORKER], [], [COLLECTOR], {"matches": ""}, 0)


def changed(**parts: Any) -> HealthSnapshot:
    return replace(WELL, **parts)


def worker(**parts: Any) -> HealthSnapshot:
    return changed(workers=[WORKER | parts])


def test_all_well() -> None:
    assert summary_of(WELL) == {"state": "good", "says": "all well", "alerts": []}


@pytest.mark.parametrize(
    ("found", "says", "serious"),
    [
        (changed(group=GROUP | {"all_members": 0}), "start one with: faust -A worker worker", True),
        (changed(group=GROUP | {"all_members": 9}), "9 workers share 4 partitions", False),
        (changed(labels_left_out=1_234), "1,234 labels are left out", True),
        (changed(labels_refused=3), "3 labels are refused", False),
        (changed(grows=True), "7 wait; start another worker, up to 4", True),
        (changed(workers=[WORKER | {"away": "x"}]), "desk.workers", False),
        (worker(ready=False, reason="reads seeds"), "is not ready: reads seeds", True),
        (worker(paused=1.0), "127.0.0.1:6066 is paused", True),
        (worker(offsets_lost_total=1234.0), "lost 1,234 posts", True),
        (worker(open_transaction_seconds=500.0), "transaction", True),
        (worker(unreadable_batches_total=2.0), "passed over 2 unreadable", False),
        (worker(drift="seed a passes 12 times the promised rate"), "passes 12 times", False),
        (worker(refused_seeds=3), "3 seeds are refused", False),
        (changed(workers=[WORKER, WORKER | {"seed_set": "b"}]), "filter by different seeds", False),
        (changed(workers=[WORKER, WORKER | {"model": "n"}]), "run other models", True),
        (changed(topics=[TOPIC]), "must be delete; kafka-configs.sh", True),
        (
            changed(collectors=[COLLECTOR | {"running": False}]),
            "bluesky ran within the hour",
            False,
        ),
        (changed(collectors=[COLLECTOR | {"gaps": 2}]), "for good, 2 times", False),
        (changed(followed={"matched-tweets": "no broker"}), "matched-tweets: no broker", False),
        (changed(rejected=5), "5 messages were rejected", False),
    ],
)
def test_each_fault_has_its_line(found: HealthSnapshot, says: str, serious: bool) -> None:
    alerts = alerts_of(found)
    assert [(says in each.says, each.serious) for each in alerts] == [(True, serious)]
    assert summary_of(found)["state"] == ("bad" if serious else "good")


def test_a_broker_that_is_away_is_all_that_is_told() -> None:
    found = changed(away="broker k: nobody listens", group=None, topics=[TOPIC])
    assert [each.says for each in alerts_of(found)] == [
        "the broker does not answer: broker k: nobody listens"
    ]
    assert summary_of(found)["says"] == "broker away"


def test_before_the_first_look_nothing_is_told() -> None:
    assert summary_of(changed(away=NOT_YET, group=None))["says"] == "looking"


def test_who_has_ended_long_ago_is_no_fault() -> None:
    assert (
        alerts_of(changed(collectors=[COLLECTOR | {"running": False, "ran_lately": False}])) == []
    )


def test_advice_that_is_no_fault_is_none() -> None:
    assert alerts_of(changed(topics=[TOPIC | {"serious": False}])) == []


def test_what_strangers_wrote_is_one_line_of_bounded_length() -> None:
    odd = HOSTILE * 200
    found = changed(
        workers=[WORKER | {"ready": False, "reason": odd, "drift": odd}],
        collectors=[COLLECTOR | {"source": odd, "running": False}] * 100,
    )
    alerts = alerts_of(found)
    assert len(alerts) == 50
    assert all(each.says.isprintable() and len(each.says) <= 400 for each in alerts)
    assert alerts[0].serious


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
