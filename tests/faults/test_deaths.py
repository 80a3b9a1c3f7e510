"""Nothing is lost, whatever happens to the worker's own process: each story, told to its end."""

import pytest

from tests.faults.stories import deaths
from tests.faults.story import Story


@pytest.mark.parametrize("fault", deaths.STORIES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    deaths.STORIES[fault](story)
