"""Nothing is lost, whatever happens to the messages or the broker: each story, told to its end."""

import pytest

from tests.faults.stories import TROUBLES
from tests.faults.story import Story


@pytest.mark.parametrize("fault", TROUBLES)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    TROUBLES[fault](story)
