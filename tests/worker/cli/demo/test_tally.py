"""The tally and what is printed of it, against sums done by hand."""

import click
import pytest

from worker.cli.demo.samples import SamplePost
from worker.cli.demo.script import Change, Message, Script
from worker.cli.demo.show import change_line, match_lines, summary
from worker.cli.demo.tally import Tally
from worker.posts.read import Reason

CHANGES = (Change(1.0, "flood", adds=True), Change(2.0, "fire", adds=False))


def record(name: str, offset: int, *events: str, seed_set: str = "a" * 12) -> dict[str, object]:
    """A match record, as far as the demo reads it."""
    matches = [
        {"match_id": f"{name}{n}", "event": event, "score": 0.5 - n / 10, "why": [["smoke", 0.3]]}
        for n, event in enumerate(events)
    ]
    source = {"partition": 0, "offset": offset, "timestamp": 10_000}
    post = {"text": "Smoke! #Smoke\x1b[2J"}
    return {"matches": matches, "source": source, "seed_set": seed_set, "post": post}


def post(event: str | None, live: bool = True) -> Message:
    return Message(0.0, b"{}", post=SamplePost(1, "text", event), live=live)


@pytest.fixture
def tally() -> Tally:
    """Four posts on a fire, one of them after its article went; two on nothing; poison."""
    made = Tally()
    sent = [post("fire"), post("fire"), post("fire"), post("fire", live=False), post(None)]
    sent += [Message(0.0, b"{", reason=Reason.BAD_JSON), Message(0.0, None), post("flood", False)]
    made.sent = {(0, n): message for n, message in enumerate(sent)}
    for n, (offset, now) in enumerate([(0, 10.010), (1, 10.030), (4, 10.020)]):
        made.match(record(f"m{n}", offset, "fire"), now)
    made.match(record("m0", 0, "fire"), 10.5)
    made.dead_letter([("reason", b"bad_json"), ("source", b"with-dashes-0-5")])
    return made


def test_precision_and_recall_count_each_match_once(tally: Tally) -> None:
    fire, flood = tally.scores(["fire", "flood"])
    assert (fire.wanted, fire.found, fire.right) == (3, 3, 2)
    assert fire.precision == fire.recall == pytest.approx(2 / 3)
    assert (flood.wanted, flood.found) == (0, 0)
    assert flood.precision is flood.recall is None


def test_posts_without_their_seed_are_told_apart(tally: Tally) -> None:
    assert tally.without_seed("fire") == (1, 0)
    tally.match(record("late", 3, "fire"), 11.0)
    assert tally.without_seed("fire") == (1, 1)


def test_latencies_are_from_the_posts_timestamp(tally: Tally) -> None:
    assert tally.latency(0.0) == pytest.approx(0.010)
    assert tally.latency(0.5) == pytest.approx(0.030)
    assert tally.latency(1.0) == pytest.approx(0.5)
    assert Tally().latency(0.5) == 0.0


def test_dead_letters_are_held_against_the_poison(tally: Tally) -> None:
    assert tally.reasons() == {"bad_json": 1}
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


def test_each_new_set_of_seeds_is_noted_once(tally: Tally) -> None:
    tally.match(record("new", 2, "fire", seed_set="b" * 12), 11.0)
    tally.match(record("more", 2, "fire", seed_set="b" * 12), 11.0)
    assert tally.seed_sets == ["a" * 12, "b" * 12]


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
