"""Nothing is lost, whatever happens to the posts: each story, told to its end."""

import pytest

from tests.faults.stories import posts
from tests.faults.story import Story


@pytest.mark.parametrize("fault", posts.STORIES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    posts.STORIES[fault](story)
