"""The tally and what is printed of it, against sums done by hand."""

from collections import Counter

import click
import pytest

from newsift.cli.demo import Cue, DemoResults, Script, SeedChange, match_lines, summary
from worker.match.records import Match, MatchRecord, PostPosition
from worker.posts.read import Post

CHANGES = (SeedChange(1.0, "flood", adds=True), SeedChange(2.0, "fire", adds=False))


def record(post: str, *events: str) -> MatchRecord:
    """A match record, as far as the demo reads it."""
    matches = [
        Match(f"{n}", "id", "1", event, "", 0.5 - n / 10, 0.2, [("smoke", 0.3)])
        for n, event in enumerate(events)
    ]
    result, source = (
        Post(post, "plain", "Smoke! #Smoke\x1b[2J"),
        PostPosition("tweets", 0, 1, 10_000),
    )
    return MatchRecord(result, matches, len(matches), "a" * 12, "ab" * 32, source, "")


@pytest.fixture
def tally() -> DemoResults:
    """Four posts on a fire, one of them after its article went; two on nothing; one too early."""
    fires = [Cue(b"{}", "fire", name, live=name != "p3") for name in ("p0", "p1", "p2", "p3")]
    others = [Cue(b"{}", None, "p4"), Cue(b"{"), Cue(None), Cue(b"{}", "flood", "p5")]
    made = DemoResults(Script((*fires, *others), CHANGES, 4.0))
    for post, now in (("p0", 10.010), ("p1", 10.030), ("p4", 10.020)):
        made.add(record(post, "fire"), now)
    made.add(record("p0", "fire"), 10.5)
    return made


def test_each_match_counts_once(tally: DemoResults) -> None:
    assert tally.about("fire", live=True) == {"p0", "p1", "p2"}
    assert tally.matched_posts("fire") == {"p0", "p1", "p4"}
    assert tally.about("flood", live=True) == tally.matched_posts("flood") == set()


def test_posts_without_their_seed_are_told_apart(tally: DemoResults) -> None:
    assert tally.about("fire", live=False) == {"p3"}
    tally.add(record("p3", "fire"), 11.0)
    assert "fire: 1 posts came after its article was removed; 1 of them matched." in list(
        summary(tally, ["fire"], Counter(), 0)
    )


def test_latencies_are_from_the_posts_timestamp(tally: DemoResults) -> None:
    assert tally.latency(0.0) == pytest.approx(10)
    assert tally.latency(0.5) == pytest.approx(30)
    assert tally.latency(1.0) == pytest.approx(500)
    assert DemoResults(tally.script).latency(0.5) == 0.0


def test_the_summary_says_it_all_in_plain_lines(tally: DemoResults) -> None:
    lines = list(summary(tally, ["fire", "flood"], Counter(bad_json=1), 6))
    assert lines[1].split() == ["fire", "3", "3", "0.67", "0.67"]
    assert lines[2].split() == ["flood", "0", "0", "-", "-"]
    assert "flood: 1 posts came before its article was added; 0 of them matched." in lines
    assert "fire: 1 posts came after its article was removed; 0 of them matched." in lines
    assert any("8 messages in 4 s, paced at 2 a second" in line for line in lines)
    assert any("p50 30 ms, p99 500 ms" in line for line in lines)
    assert lines[-1] == "Dead letters: 1 (bad_json 1). Passed over: 6."


def test_a_line_for_each_match_with_lit_words_and_nothing_that_steers_a_terminal() -> None:
    result = record("m", "fire", "flood")
    assert list(match_lines(result, colour=False)) == [
        "0.50  fire              Smoke[0.30]! #Smoke[0.30][2J",
        "0.40  flood             Smoke[0.30]! #Smoke[0.30][2J",
    ]
    piped = list(match_lines(result, colour=False, weights=False))
    assert piped[0] == "0.50  fire              Smoke! #Smoke[2J"
    lit = next(match_lines(result, colour=True))
    assert "\x1b[" in lit
    assert click.unstyle(lit) == "0.50  fire              Smoke! #Smoke[2J"
