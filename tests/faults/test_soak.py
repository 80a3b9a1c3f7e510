import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.faults.expected import Oracle, digest, post_texts, seed_set
from tests.faults.soak import FAULTS, schedule
from tests.faults.soak_report import growth
from tests.faults.tally import Tally, Texts, Verdict

TEXTS = Texts(
    ["storm", "music", "cut"],
    unreadable=frozenset({2}),
    matches={"one": [frozenset({("s", "v")})] + [frozenset()] * 2},
    model="m",
)


def record(number: int, **other: Any) -> dict[str, Any]:
    text = TEXTS.texts[number % 3]
    name = digest(["plain", str(number), text, "s", "v", "m"])[:32]
    match = {"seed_id": "s", "seed_version": "v", "match_id": name}
    return {
        "post": {"id": str(number), "text": text}, "matches": [match], "matched": 1,
        "seed_set": "one",
    } | other  # fmt: skip


def test_a_tally_counts_what_is_missing_and_what_is_twice() -> None:
    tally = Tally(TEXTS)
    for number in (0, 3, 3, 3):
        tally.match(record(number))
    tally.letter(b'{"id":"2","text":"cut', "bad_json")
    assert tally.verdict(8) == Verdict(expected=5, missing=2, twice=2, wrong=0)


@pytest.mark.parametrize(
    "bad",
    [
        record(1), record(0, seed_set="two"), record(0, matched=2), record(3, matches=[]),
        record(0, matches=record(0)["matches"] * 2),
    ],
)  # fmt: skip
def test_a_tally_detects_a_wrong_match(bad: dict[str, Any]) -> None:
    tally = Tally(TEXTS)
    tally.match(bad)
    assert tally.verdict(8).wrong == 1


def test_a_tally_detects_a_wrong_dead_letter_and_a_post_that_nobody_wrote() -> None:
    tally = Tally(TEXTS)
    tally.letter(b'{"id":"1","text":"music', "bad_json")
    tally.letter(b'{"id":"2","text":"cut', "too_deep")
    tally.match(record(9))
    assert tally.verdict(8).wrong == 3


def test_a_tally_holds_matches_until_it_knows_what_was_learned() -> None:
    tally = Tally(TEXTS._replace(matches=dict(TEXTS.matches)))
    for number in (0, 3):
        tally.match(record(number, seed_set="learned"))
    tally.match(record(6, seed_set="unknown"))
    tally.expect({"learned": TEXTS.matches["one"], "other": [frozenset()] * 3})
    assert tally.verdict(9) == Verdict(expected=3, missing=3, twice=0, wrong=1)  # unreadable ones
    assert tally.examples == ["no seeds are known as unknown"]


def test_a_learned_profile_is_expected_as_the_topic_has_it(tmp_path: Path) -> None:
    oracle = Oracle(tmp_path)
    made = oracle.profile(oracle.seeds[0], oracle.seeds[1].text)
    record = json.dumps(json.loads(made.value) | {"threshold": None, "before": []}).encode()
    learned = oracle.parse_profile(record, made.threshold)
    assert learned.value == record
    assert seed_set([learned]) == seed_set([made])
    assert 0 < oracle.matching(learned).sum() < len(post_texts())
    assert (oracle.matching(learned) == oracle.matching(made)).all()
    assert not oracle.matching(oracle.parse_profile(record, 0.999)).any()


def test_a_seed_decides_the_faults_and_each_comes_soon() -> None:
    kinds = sorted(FAULTS)[1:]
    events = list(schedule(7, 900, kinds))
    assert events == list(schedule(7, 900, kinds)) != list(schedule(8, 900, kinds))
    assert {event.kind for event in events} == set(kinds)


@pytest.mark.parametrize(("an_hour", "grows"), [(0, False), (90, False), (110, True)])
def test_memory_may_not_grow_over_a_long_life(an_hour: float, grows: bool) -> None:
    life = [(at, 300 + an_hour * at / 3600) for at in np.arange(0, 3700, 10.0)]
    short = [(at, 300 + 10 * size) for at, size in life[:300]]
    assert bool(growth({"a worker": life, "another": short})) is grows
