import re
from pathlib import Path

import pytest

from tests.faults.stories import STORIES, number
from tests.faults.story import Story

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


@pytest.mark.parametrize("fault", STORIES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    STORIES[fault](story)
    assert story.events or any(worker.proofs for worker in story.workers), "no fault occurred"


def test_each_fault_has_a_story_and_a_line_on_the_page() -> None:
    assert {number(name) for name in STORIES} == set(range(1, 29))
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    titles = {
        (str(number(name)), (tell.__doc__ or "").rstrip(".")) for name, tell in STORIES.items()
    }
    assert set(rows) == titles
