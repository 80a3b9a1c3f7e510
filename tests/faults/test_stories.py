import pytest

from tests.faults.campaign import BROKERS, PAGE, Row, page, title
from tests.faults.stories import STORIES, number
from tests.faults.story import Story

ROW = Row(9, "The topic refuses", "embedded", 2, 100, 0, 3, 24, 1.26, 9.04)


@pytest.mark.parametrize("fault", STORIES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    STORIES[fault](story)


def test_each_fault_has_a_story() -> None:
    assert {number(name) for name in STORIES} == set(range(1, 29))


def test_a_page_names_the_command_and_what_was_skipped() -> None:
    text = page([ROW], "the-command", ["apache: no java"])
    assert "| 9 | The topic refuses | embedded | 2 | 100 | 0 | 3 (24) | 1.3 | 9.0 |\n" in text
    assert "`the-command`" in text
    assert "Left out: apache: no java\n" in text


@pytest.mark.parametrize("broker", BROKERS)
def test_the_page_has_every_story(broker: str) -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    titles = sorted((int(row[0]), row[1]) for row in rows if row[0].isdigit() and row[2] == broker)
    assert titles == sorted((number(name), title(name)) for name in STORIES)
