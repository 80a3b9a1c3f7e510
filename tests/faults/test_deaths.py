"""Nothing is lost, whatever happens to the worker: each story, told to its end."""

import pytest

from tests.faults.stories import DEATHS
from tests.faults.story import Story


@pytest.mark.parametrize("fault", DEATHS)
def test_nothing_is_lost(story: Story, fault: str) -> None:
    DEATHS[fault](story)
