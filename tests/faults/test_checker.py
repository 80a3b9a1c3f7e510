from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from tests.faults.checker import (
    Counts,
    History,
    LetterSeen,
    MatchSeen,
    Named,
    Sent,
    Tally,
    Verdict,
    check,
)
from tests.faults.expected_matches import digest
from tests.faults.load import AUTHOR, DELETED_AFTER, DELETED_STEP, Texts

GOOD = Named("m1", 0.7, 0.6)


def match(offset: int, *ids: str) -> MatchSeen:
    named = tuple(Named(each, 0.7, 0.6) for each in ids)
    return MatchSeen((0, offset), named, len(named), f"content of {offset}")


FIRST, LAST = match(0, "m1"), match(3, "m2", "m3")
LETTER = LetterSeen((0, 2), "bad_json", b"{")
HISTORY = History(
    sent=[
        Sent((0, 0), b"a", frozenset({"m1"})),
        Sent((0, 1), b"b"),
        Sent((0, 2), b"{", reason="bad_json"),
        Sent((0, 3), b"c", frozenset({"m2", "m3"})),
    ],
    matches=[FIRST, LAST],
    letters=[LETTER],
    committed={0: 4},
)


def complaint(history: History, **options: Any) -> str:
    (text,) = check(history, **options).complaints
    return text


def scored(score: float) -> MatchSeen:
    return replace(FIRST, matches=(replace(GOOD, score=score),))


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ({"matches": [LAST]}, "missing: the match of (0, 0)"),
        ({"letters": []}, "missing: the dead letter of (0, 2) (bad_json)"),
        ({"matches": [FIRST, match(3, "m2")]}, "wrong ids: (0, 3)"),
        ({"matches": [FIRST, match(3, "m2", "m3", "m4")]}, "wrong ids: (0, 3)"),
        ({"matches": [FIRST, match(3, "m2", "x")]}, "wrong ids: (0, 3)"),
        ({"matches": [replace(match(0, "m1", "m1"), matched=1), LAST]}, "wrong ids: (0, 0)"),
        ({"matches": [replace(FIRST, matched=2), LAST]}, "wrong ids"),
        ({"matches": [FIRST, LAST, match(1, "m9")]}, "must not match"),
        ({"matches": [FIRST, LAST, match(9, "m9")]}, "unexpected: (0, 9)"),
        ({"matches": [scored(0.59), LAST]}, "below its threshold"),
        ({"matches": [scored(float("nan")), LAST]}, "below its threshold"),
        ({"letters": [LETTER, LetterSeen((0, 1), "failed", b"b")]}, "is a dead letter"),
        ({"letters": [replace(LETTER, reason="no_id")]}, "wrong reason"),
        ({"letters": [replace(LETTER, value=b"[")]}, "changed"),
        ({"committed": {0: 5}}, "committed too far"),
        ({"committed": {0: 3}}, "not drained"),
        ({"committed": {}}, "not drained"),
    ],
)
def test_each_damage_is_reported(damage: dict[str, Any], text: str) -> None:
    assert check(HISTORY) == Verdict(4, 2, 1, 0, 0, ())
    assert text in complaint(replace(HISTORY, **damage))


def test_a_repeated_record_counts_against_the_bound_and_must_be_equal() -> None:
    twice = replace(HISTORY, matches=[FIRST, LAST, FIRST], letters=[LETTER, LETTER])
    assert check(twice, 2) == Verdict(4, 3, 2, 0, 2, ())
    assert complaint(twice, allowed_duplicates=1) == "2 duplicates, 1 are allowed"
    unequal = replace(HISTORY, matches=[FIRST, LAST, replace(FIRST, content="another seed set")])
    assert "unequal" in complaint(unequal, allowed_duplicates=1)


def test_a_post_that_is_read_with_either_of_two_seed_sets_has_one_of_two_outcomes() -> None:
    either = Sent((0, 0), b"a", frozenset({"m1"}), instead=frozenset({"m2", "m3"}))
    history = History([either], [FIRST], [], {0: 1})
    assert check(history).complaints == ()
    assert check(replace(history, matches=[match(0, "m2", "m3")])).complaints == ()
    assert "wrong ids" in complaint(replace(history, matches=[match(0, "m1", "m2")]))
    assert "missing: the match of (0, 0)" in complaint(replace(history, matches=[]))
    nothing = replace(either, instead=frozenset())
    assert check(replace(history, sent=[nothing], matches=[])).complaints == ()


def test_after_a_crash_only_committed_posts_must_have_records() -> None:
    crashed = replace(HISTORY, matches=[FIRST], committed={0: 3})
    assert check(crashed, drained=False).complaints == ()
    crashed = replace(crashed, committed={0: 4})
    assert "missing: the match of (0, 3)" in complaint(crashed, drained=False)


# Of four texts the first matches, and the second is unreadable; of the posts that match, two are
# deleted.
MET = [frozenset({("ferry", "v1")}), *[frozenset[tuple[str, str]]()] * 3]
TEXTS = Texts(["a ferry", "b", "c", "d"], frozenset({1}), {"set": MET}, "model")
SENT = DELETED_AFTER + 5 * DELETED_STEP
OUT = [number for number in range(SENT) if number % 4 < 2]


def post_id(number: int) -> str:
    return f"at://{AUTHOR}/app.bsky.feed.post/{number}"


def tallied(
    numbers: Sequence[int] = OUT, pruned: Sequence[int] = (0, 4 * DELETED_STEP),
    seed_set: str = "set", reason: str = "bad_json",
) -> Counts:  # fmt: skip
    tally = Tally(TEXTS)
    for number in numbers:
        if number % 4 == 1:
            tally.letter(TEXTS.message(number), reason)
            continue
        post = {"id": post_id(number), "text": TEXTS.text(number)}
        named = ["bluesky", post["id"], post["text"], "ferry", "v1", "model"]
        hit = {"seed_id": "ferry", "seed_version": "v1", "match_id": digest(named)[:32]}
        tally.match({"post": post, "matches": [hit], "matched": 1, "seed_set": seed_set})
    for number in pruned:
        tally.deletion({"post": {"id": post_id(number)}})
    assert tally.is_pruned(SENT) is (tally.verdict(SENT).unpruned == 0)
    return tally.verdict(SENT)


def test_the_tally_of_a_soak_finds_each_damage() -> None:
    whole = Counts(len(OUT), missing=0, twice=0, wrong=0, pruned=2, unpruned=0)
    assert tallied() == whole
    assert tallied(OUT[:4] + OUT[6:]) == whole._replace(missing=2)
    assert tallied([*OUT, 8]) == whole._replace(twice=1)
    assert tallied([*OUT, SENT + 3]) == whole._replace(wrong=1)
    assert tallied(seed_set="other").wrong == sum(number % 4 == 0 for number in OUT)
    assert tallied(reason="failed").wrong == sum(number % 4 == 1 for number in OUT)
    assert tallied(pruned=[0]) == whole._replace(pruned=1, unpruned=1)
    assert tallied(pruned=[0, 4, 4 * DELETED_STEP]) == whole._replace(pruned=3, wrong=1)
