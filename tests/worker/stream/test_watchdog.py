"""The watchdog fires when the worker stands still without an excuse, and then alone."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.errors import StalledError
from worker.watchdog import Sight, Watchdog

sights = st.builds(
    Sight, st.sampled_from([None, 0, 1, 500]), st.booleans(), st.integers(0, 2)
)  # fmt: skip


def standing(sight: Sight, before: int) -> bool:
    """Whether there is work, nothing holds it up, and still no batch was finished."""
    return bool(sight.lag) and not sight.paused and sight.finished == before


@given(st.lists(sights, max_size=40))
def test_it_fires_after_so_many_looks_without_an_excuse(looks: list[Sight]) -> None:
    """One look a second; the model counts how many in a row saw it stand still."""
    at, before, idle = 0.0, 0, 0
    dog = Watchdog(5.0, lambda: at)
    for sight in looks:
        at += 1
        idle = idle + 1 if standing(sight, before) else 0
        before = sight.finished
        if idle >= 5:
            with pytest.raises(StalledError):
                dog.look(sight)
            return
        dog.look(sight)


def test_it_says_what_it_saw() -> None:
    times = iter([0.0, 61.0])
    dog = Watchdog(60.0, lambda: next(times))
    with pytest.raises(StalledError, match="for 61 s"):
        dog.look(Sight(42, paused=False, finished=0))
