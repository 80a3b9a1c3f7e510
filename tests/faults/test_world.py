"""Nothing is lost, whatever happens to the broker and the machine: each story, told to its end."""

import pytest

from tests.faults.stories import world
from tests.faults.story import Story


@pytest.mark.parametrize("fault", world.STORIES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    world.STORIES[fault](story)
