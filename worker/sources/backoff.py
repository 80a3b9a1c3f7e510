"""How long to stay away after one failure, and after the next."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Backoff:
    """Pauses that grow from `first` to `longest` seconds, by a factor or by a step.

    By chance each is longer by a share of `jitter` at most, so that not all clients of a platform
    come back at once; none is longer than `longest`.
    """

    first: float
    longest: float
    factor: float = 2.0
    step: float = 0.0
    jitter: float = 0.2
    chance: Callable[[], float] = field(default=random.random, repr=False)
    _next: float | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        grows = self.factor > 1 or (self.factor == 1 and self.step >= 0)
        if not (0 <= self.first <= self.longest and grows and self.step >= 0):
            raise ValueError(f"pauses from {self.first} to {self.longest} s do not grow")
        if not 0 <= self.jitter <= 1:
            raise ValueError(f"jitter: {self.jitter}; give a share from 0 to 1")

    def pause(self) -> float:
        """The seconds to wait now; the next are more."""
        now = self.first if self._next is None else self._next
        self._next = min(self.longest, now * self.factor + self.step)
        return min(self.longest, now * (1 + self.jitter * self.chance()))

    def reset(self) -> None:
        """Begin again with the first pause: it got on meanwhile."""
        self._next = None
