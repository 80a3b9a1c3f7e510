"""The memory of processes over hours: how much, how fast it grows, and whether it may."""

from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from tests.faults.process import resident

LONG_S, GROWN = 3600.0, 1.25  # a life in which memory may not grow, and by how much it may
Life = Sequence[tuple[float, int]]  # seconds and bytes


class Memory:
    """Of processes by name; another process of one name begins a new life."""

    def __init__(self) -> None:
        self._lives = defaultdict[tuple[str, int], list[tuple[float, int]]](list)

    def sample(self, name: str, pid: int, now: float) -> None:
        with suppress(OSError, IndexError):  # it has just ended
            self._lives[name, pid].append((now, resident(pid)))

    def complaints(self) -> list[str]:
        return [
            f"{name} {what}" for (name, _), life in self._lives.items() for what in growth(life)
        ]

    def __str__(self) -> str:
        """Of the longest life of each name: how it grew in its second half, and its maximum."""
        by_length = sorted(self._lives.items(), key=lambda item: len(item[1]))
        longest = {name: life for (name, _), life in by_length}
        return "; ".join(f"{name}: {slope(life)}" for name, life in longest.items())


def growth(life: Life) -> list[str]:
    """A long life may not need more memory in its last quarter than in its first."""
    sizes, quarter = [size / 1e6 for _, size in life], len(life) // 4
    if not life or life[-1][0] - life[0][0] < LONG_S:
        return []
    early, late = max(sizes[:quarter]), max(sizes[-quarter:])
    return [f"grew from {early:.0f} to {late:.0f} MB"] if late > GROWN * early else []


def slope(life: Life) -> str:
    """How a life's memory rose in its second half, and the most that it had."""
    times, sizes = np.array(life, float).T
    late = slice(len(life) // 2, None)
    rise = np.polyfit(times[late] / 3600, sizes[late] / 1e6, 1)[0] if len(life) > 3 else 0.0
    hours = (times[-1] - times[0]) / 3600
    return f"{rise:+.1f} MB an hour over {hours:.1f} h, at most {sizes.max() / 1e6:.0f} MB"
