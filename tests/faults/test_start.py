"""Nothing is lost, whatever is wrong at the start: each story, told to its end."""

import pytest

from tests.faults.stories import start
from tests.faults.story import Story


@pytest.mark.parametrize("fault", start.STORIES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    start.STORIES[fault](story)
