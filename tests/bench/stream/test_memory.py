"""What is read of a worker on its way, from a worker and a broker that are played."""

from typing import Any, cast

import pytest

from bench.stream.memory import readings


class Played:
    """A worker that needs 20 µs a post and a megabyte a million, on a broker that commits."""

    group = "group"

    def __init__(self) -> None:
        self.done = 0

    def committed(self, _group: str) -> int:
        self.done += 500
        return self.done

    def cpu(self) -> float:
        return 3.0 + 20e-6 * self.done

    def resident(self) -> float:
        return 600 + self.done / 1e6

    def check(self) -> None:
        """It runs."""


def test_every_tenth_says_what_a_post_cost_since_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda _: None)
    played = cast(Any, Played())
    found = readings(played, played, 20_000, [0], lambda line: None)
    assert [at.posts for at in found] == [2000 * n for n in range(1, 11)]
    assert [at.cost for at in found] == pytest.approx([20.0] * 10)
    assert found[-1].resident == pytest.approx(600.02)
