"""The campaign tells every fault of the list, and the page that it wrote has them all."""

import pytest

from tests.faults.campaign import BROKERS
from tests.faults.report import PAGE, Row, page
from tests.faults.stories import STORIES, number

FAULTS = range(1, 26)
ROW = Row(9, "The topic refuses", "embedded", 2, 100, 0, 3, 24, 1.26, 9.04)


def test_each_fault_has_a_story_that_says_what_it_is() -> None:
    assert {number(name) for name in STORIES} == set(FAULTS)
    assert [name for name, tell in STORIES.items() if not tell.__doc__] == []


def test_a_page_says_what_was_run_and_what_was_not() -> None:
    text = page([ROW], "the-command", ["apache: no java"])
    assert "| 9 | The topic refuses | embedded | 2 | 100 | 0 | 3 (24) | 1.3 | 9.0 |\n" in text
    assert "`the-command`" in text
    assert "Left out: apache: no java\n" in text
    assert "Left out" not in page([ROW], "the-command", [])


@pytest.mark.parametrize("broker", BROKERS)
def test_the_page_has_every_story(broker: str) -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    told = [(int(row[0]), row[1]) for row in rows if row[0].isdigit() and row[2] == broker]
    wanted = {(number(name), (tell.__doc__ or "").rstrip(".")) for name, tell in STORIES.items()}
    assert (set(told), len(told)) == (wanted, len(wanted))
