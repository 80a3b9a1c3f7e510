"""The tally and what is printed of it, against sums done by hand."""

import click
import pytest

from worker.cli.demo.samples import SamplePost
from worker.cli.demo.script import Change, Cue, Script
from worker.cli.demo.tally import Tally, change_line, match_lines, summary
from worker.match.records import Match, MatchRecord, Source
from worker.posts.read import Post, Reason

CHANGES = (Change(1.0, "flood", adds=True), Change(2.0, "fire", adds=False))


def record(name: str, offset: int, *events: str) -> MatchRecord:
    """A match record, as far as the demo reads it."""
    matches = [
        Match(f"{name}{n}", "id", "1", event, "", 0.5 - n / 10, 0.2, [("smoke", 0.3)])
        for n, event in enumerate(events)
    ]
    post = Post("1", "plain", "Smoke! #Smoke\x1b[2J")
    source = Source("with-dashes", 0, offset, 10_000)
    return MatchRecord(post, matches, len(matches), "a" * 12, "ab" * 32, source, "")


def post(event: str | None, live: bool = True) -> Cue:
    return Cue(0.0, b"{}", post=SamplePost(1, "text", event), live=live)


@pytest.fixture
def tally() -> Tally:
    """Four posts on a fire, one of them after its article went; two on nothing; poison."""
    made = Tally()
    sent = [post("fire"), post("fire"), post("fire"), post("fire", live=False), post(None)]
    sent += [Cue(0.0, b"{", reason=Reason.BAD_JSON), Cue(0.0, None), post("flood", False)]
    made.sent = {(0, n): cue for n, cue in enumerate(sent)}
    for n, (offset, now) in enumerate([(0, 10.010), (1, 10.030), (4, 10.020)]):
        made.match(record(f"m{n}", offset, "fire"), now)
    made.match(record("m0", 0, "fire"), 10.5)
    made.dead_letter([("reason", b"bad_json"), ("source", b"with-dashes-0-5")])
    return made


def test_each_match_counts_once(tally: Tally) -> None:
    assert tally.about("fire", live=True) == {(0, 0), (0, 1), (0, 2)}
    assert tally.found("fire") == {(0, 0), (0, 1), (0, 4)}
    assert tally.about("flood", live=True) == tally.found("flood") == set()


def test_posts_without_their_seed_are_told_apart(tally: Tally) -> None:
    assert tally.about("fire", live=False) == {(0, 3)}
    tally.match(record("late", 3, "fire"), 11.0)
    script = Script((), CHANGES, 4.0)
    assert "fire: 1 posts came after its article was removed; 1 of them matched." in list(
        summary(tally, script, ["fire"], passed_over=0)
    )


def test_latencies_are_from_the_posts_timestamp(tally: Tally) -> None:
    assert tally.latency(0.0) == pytest.approx(10)
    assert tally.latency(0.5) == pytest.approx(30)
    assert tally.latency(1.0) == pytest.approx(500)
    assert Tally().latency(0.5) == 0.0


def test_dead_letters_are_held_against_the_poison(tally: Tally) -> None:
    assert tally.unexpected() == []
    tally.dead_letter([("reason", b"no_id"), ("source", b"tweets-0-0")])
    tally.dead_letter([("reason", b"no_id"), ("source", b"tweets-0-5")])
    assert tally.unexpected() == [
        "partition 0, offset 0: expected no dead letter, found no_id",
        "partition 0, offset 5: expected bad_json, found no_id",
    ]
    assert Tally(sent=tally.sent).unexpected() == [
        "partition 0, offset 5: expected bad_json, found no dead letter"
    ]


def test_the_summary_says_it_all_in_plain_lines(tally: Tally) -> None:
    script = Script((), CHANGES, 4.0)
    lines = list(summary(tally, script, ["fire", "flood"], passed_over=6))
    assert lines[1].split() == ["fire", "3", "3", "0.67", "0.67"]
    assert lines[2].split() == ["flood", "0", "0", "-", "-"]
    assert "flood: 1 posts came before its article was added; 0 of them matched." in lines
    assert "fire: 1 posts came after its article was removed; 0 of them matched." in lines
    assert any("8 messages in 4 s, paced at 2 a second" in line for line in lines)
    assert any("p50 30 ms, p99 500 ms" in line for line in lines)
    assert lines[-1] == "Dead letters: 1 (bad_json 1). Passed over: 6."


def test_a_line_for_each_match_with_lit_words_and_nothing_that_steers_a_terminal() -> None:
    found = record("m", 0, "fire", "flood")
    assert list(match_lines(found, colour=False)) == [
        "0.50  fire              Smoke[0.30]! #Smoke[0.30][2J",
        "0.40  flood             Smoke[0.30]! #Smoke[0.30][2J",
    ]
    lit = next(match_lines(found, colour=True))
    assert "\x1b[" in lit
    assert click.unstyle(lit) == "0.50  fire              Smoke! #Smoke[2J"


def test_changes_are_told_with_colour_and_without() -> None:
    plain = [change_line(change, colour=False) for change in CHANGES]
    assert [line.split()[1:] for line in plain] == [
        ["flood", "article", "added"], ["fire", "article", "removed"]
    ]  # fmt: skip
    assert [click.unstyle(change_line(change, colour=True)) for change in CHANGES] == plain
