"""Bursts: minutes that tell more new stories of an event than the hour before lets expect.

At a steady rate, whatever it is, the stories of one minute are Binomial(n, 1 / (m + 1)) of the n of
this minute and the m before it: an exact test, which knows how little a short history says.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from worker.judge.distributions import binomial_tail

SURE = 1e-6  # the chance of a false alarm, for one event in one minute
LEAST = 5  # stories
HISTORY = 60  # minutes; a burst is told once in so many
ENOUGH = 10  # minutes of history, at least
LATE = 5  # minutes; what comes later is history and no news


@dataclass(frozen=True, slots=True)
class Burst:
    """What was told of an event in one minute, and in the minutes before it."""

    event: str
    minute: int  # since 1970
    stories: int
    before: int
    minutes: int

    @property
    def chance(self) -> float:
        """The probability of so many stories or more in this minute, were the rate steady."""
        return binomial_tail(self.stories + self.before, 1 / (self.minutes + 1), self.stories)


class Bursts:
    """The new stories of each event, minute by minute, since a minute of which a part was seen."""

    def __init__(self, begun: int) -> None:
        self._begun = self._now = begun
        self._counts: dict[str, Counter[int]] = {}
        self._told: dict[str, int] = {}

    def add(self, stories: Mapping[tuple[str, int], int], now: int) -> list[Burst]:
        """Count stories by event and minute; the bursts that they reveal, once an hour each."""
        if now > self._now:
            self._now = now
            self._forget(now - HISTORY - LATE)
        for (event, minute), count in stories.items():
            if minute > self._begun and minute >= now - HISTORY - LATE:
                self._counts.setdefault(event, Counter())[min(minute, now)] += count
        asked = {(event, min(minute, now)) for event, minute in stories}
        found = [self._burst(event, minute) for event, minute in sorted(asked)]
        return [burst for burst in found if burst is not None]

    def _burst(self, event: str, minute: int) -> Burst | None:
        counts: Counter[int] = self._counts.get(event, Counter())
        stories, minutes = counts[minute], min(HISTORY, minute - self._begun - 1)
        if stories < LEAST or minutes < ENOUGH or minute < self._now - LATE:
            return None
        if minute < self._told.get(event, minute - HISTORY) + HISTORY:
            return None
        before = sum(counts[past] for past in range(minute - minutes, minute))
        burst = Burst(event, minute, stories, before, minutes)
        if burst.chance >= SURE:
            return None
        self._told[event] = minute
        return burst

    def _forget(self, first: int) -> None:
        """Keep no minute before this one."""
        for event, counts in list(self._counts.items()):
            kept = Counter({minute: count for minute, count in counts.items() if minute >= first})
            self._counts[event] = kept
            if not kept:
                del self._counts[event]
        self._told = {event: at for event, at in self._told.items() if at >= first}
