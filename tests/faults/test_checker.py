"""The checker itself, on doctored histories: each kind of damage is found, and no other."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.faults.checker import History, LetterSeen, MatchSeen, Named, Sent, Verdict, check

GOOD = Named("m1", 0.7, 0.6)


def match(offset: int, *ids: str) -> MatchSeen:
    named = tuple(Named(each, 0.7, 0.6) for each in ids)
    return MatchSeen((0, offset), named, len(named), f"content of {offset}")


HISTORY = History(
    sent=[
        Sent((0, 0), b"a", frozenset({"m1"})),
        Sent((0, 1), b"b"),
        Sent((0, 2), b"{", reason="bad_json"),
        Sent((0, 3), b"c", frozenset({"m2", "m3"})),
    ],
    matches=[match(0, "m1"), match(3, "m2", "m3")],
    letters=[LetterSeen((0, 2), "bad_json", b"{")],
    committed={0: 4},
)


def only(verdict: Verdict, said: str) -> None:
    """One complaint was made, and it says this."""
    assert len(verdict.complaints) == 1, verdict.complaints
    assert said in verdict.complaints[0]


def test_a_history_in_which_all_is_well() -> None:
    assert check(HISTORY) == Verdict(4, 2, 1, 0, 0, ())


def test_a_lost_match_is_missing() -> None:
    verdict = check(replace(HISTORY, matches=HISTORY.matches[1:]))
    only(verdict, "missing: the match of (0, 0)")
    assert verdict.missing == 1


def test_a_lost_dead_letter_is_missing() -> None:
    verdict = check(replace(HISTORY, letters=[]))
    only(verdict, "missing: the dead letter of (0, 2) (bad_json)")


def test_a_repeated_record_is_a_duplicate_and_counts_against_the_bound() -> None:
    twice = replace(HISTORY, matches=[*HISTORY.matches, HISTORY.matches[0]],
                    letters=[*HISTORY.letters] * 2)  # fmt: skip
    assert check(twice, 2) == Verdict(4, 3, 2, 0, 2, ())
    only(check(twice, 1), "2 duplicates, 1 are allowed")


def test_a_record_made_twice_and_differently_is_unequal() -> None:
    other = replace(HISTORY.matches[0], content="another seed set")
    only(check(replace(HISTORY, matches=[*HISTORY.matches, other]), 1), "unequal")


@pytest.mark.parametrize("ids", [("m2",), ("m2", "m3", "m4"), ("m2", "x")])
def test_another_match_id_is_wrong(ids: tuple[str, ...]) -> None:
    only(check(replace(HISTORY, matches=[HISTORY.matches[0], match(3, *ids)])), "wrong ids: (0, 3)")


def test_a_post_read_under_either_seeds_comes_to_one_of_two_things() -> None:
    either = Sent((0, 0), b"a", frozenset({"m1"}), instead=frozenset({"m2", "m3"}))
    history = History([either], [match(0, "m1")], [], {0: 1})
    assert check(history).complaints == ()
    assert check(replace(history, matches=[match(0, "m2", "m3")])).complaints == ()
    only(check(replace(history, matches=[match(0, "m1", "m2")])), "wrong ids")
    only(check(replace(history, matches=[])), "missing: the match of (0, 0)")
    nothing = replace(either, instead=frozenset())
    assert check(replace(history, sent=[nothing], matches=[])).complaints == ()


def test_a_count_of_matches_that_is_not_theirs_is_wrong() -> None:
    miscounted = replace(HISTORY.matches[0], matched=2)
    only(check(replace(HISTORY, matches=[miscounted, HISTORY.matches[1]])), "wrong ids")


def test_a_match_of_a_post_that_must_not_match_is_unexpected() -> None:
    only(check(replace(HISTORY, matches=[*HISTORY.matches, match(1, "m9")])), "must not match")


def test_a_match_of_a_post_nobody_wrote_is_unexpected() -> None:
    only(check(replace(HISTORY, matches=[*HISTORY.matches, match(9, "m9")])), "unexpected: (0, 9)")


def test_a_score_below_its_threshold_is_found() -> None:
    low = replace(HISTORY.matches[0], matches=(replace(GOOD, score=0.59),))
    only(check(replace(HISTORY, matches=[low, HISTORY.matches[1]])), "below its threshold")


def test_a_score_that_is_no_number_is_below_every_threshold() -> None:
    low = replace(HISTORY.matches[0], matches=(replace(GOOD, score=float("nan")),))
    only(check(replace(HISTORY, matches=[low, HISTORY.matches[1]])), "below its threshold")


def test_a_dead_letter_of_a_good_post_is_unexpected() -> None:
    stray = LetterSeen((0, 1), "not_finite", b"b")
    only(check(replace(HISTORY, letters=[*HISTORY.letters, stray])), "is a dead letter")


def test_another_reason_or_another_value_is_wrong() -> None:
    (letter,) = HISTORY.letters
    only(check(replace(HISTORY, letters=[replace(letter, reason="no_id")])), "wrong reason")
    only(check(replace(HISTORY, letters=[replace(letter, value=b"[")])), "changed")


def test_a_commit_past_what_was_written_is_too_far() -> None:
    only(check(replace(HISTORY, committed={0: 5})), "committed too far")


def test_what_is_not_committed_in_the_end_is_not_drained() -> None:
    only(check(replace(HISTORY, committed={0: 3})), "not drained")
    only(check(replace(HISTORY, committed={})), "not drained")


def test_after_a_crash_only_what_is_committed_must_be_there() -> None:
    crashed = replace(HISTORY, matches=HISTORY.matches[:1], committed={0: 3})
    assert check(crashed, drained=False).complaints == ()
    only(check(replace(crashed, committed={0: 4}), drained=False), "missing: the match of (0, 3)")


@given(st.data())
def test_whatever_is_taken_away_is_missed(data: st.DataObject) -> None:
    offsets = data.draw(st.sets(st.integers(0, 30), min_size=1))
    sent = [Sent((0, n), b"", frozenset({f"m{n}"})) for n in offsets]
    kept = data.draw(st.sets(st.sampled_from(sorted(offsets))))
    seen = [match(n, f"m{n}") for n in kept]
    verdict = check(History(sent, seen, [], {0: max(offsets) + 1}))
    assert verdict.missing == len(offsets - kept)
    assert (verdict.complaints == ()) == (kept == offsets)
