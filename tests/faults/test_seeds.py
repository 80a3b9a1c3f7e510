"""Nothing is lost, whatever happens to the seeds: each story, told to its end."""

import pytest

from tests.faults.stories import seeds
from tests.faults.story import Story


@pytest.mark.parametrize("fault", seeds.STORIES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    seeds.STORIES[fault](story)
