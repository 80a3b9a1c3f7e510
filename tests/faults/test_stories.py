import pytest

from tests.faults.campaign import BROKERS, PAGE, title
from tests.faults.stories import STORIES, number
from tests.faults.story import Story


@pytest.mark.parametrize("fault", STORIES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    STORIES[fault](story)


def test_each_fault_has_a_story() -> None:
    assert {number(name) for name in STORIES} == set(range(1, 29))


@pytest.mark.parametrize("broker", BROKERS)
def test_the_page_has_every_story(broker: str) -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text("utf-8").splitlines()]
    titles = sorted((int(row[0]), row[1]) for row in rows if row[0].isdigit() and row[2] == broker)
    assert titles == sorted((number(name), title(name)) for name in STORIES)
