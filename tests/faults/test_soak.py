import numpy as np
import pytest

from tests.faults.memory import growth
from tests.faults.soak import FAULTS, schedule


def test_a_seed_decides_the_faults_and_each_comes_soon() -> None:
    times, kinds, _ = zip(*schedule(7, 900), strict=True)
    assert set(kinds) == set(FAULTS)
    assert list(times) == sorted(times)
    assert [each[:2] for each in schedule(7, 900)] == list(zip(times, kinds, strict=True))
    assert [each[:2] for each in schedule(8, 900)] != list(zip(times, kinds, strict=True))


@pytest.mark.parametrize(
    ("seconds", "mb_an_hour", "grows"),
    [(3700, 0, False), (3700, 90, False), (3700, 110, True), (3000, 500, False)],
)
def test_memory_may_not_grow_over_a_long_life(
    seconds: float, mb_an_hour: float, grows: bool
) -> None:
    times = np.arange(0, seconds, 10.0)
    assert bool(growth([(at, round(3e8 + 1e6 * mb_an_hour * at / 3600)) for at in times])) is grows
