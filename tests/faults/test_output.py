"""Nothing is lost, whatever happens to the output: each story, told to its end."""

import pytest

from tests.faults.stories import output
from tests.faults.story import Story


@pytest.mark.parametrize("fault", output.STORIES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    output.STORIES[fault](story)
