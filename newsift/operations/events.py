"""Events of the control topic with their seeds, profiles and thresholds; targets of promises."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from encoder.errors import InputError
from newsift.statistics.labels import MAX_TESTS, Goal, Label, QueueName
from newsift.statistics.promise import confidence_of_test
from newsift.statistics.queues import newest_test
from worker.seeds.profile import Profile
from worker.seeds.record import PROFILE_PREFIX, Seed
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState

IN_FORCE, PROFILE_STALE, PROFILE_REFUSED, NO_PROFILE = "in force", "stale", "refused", "none"
MAX_COUNT = 10**6


@dataclass(frozen=True, slots=True)
class EventState:
    name: str
    seeds: tuple[Seed, ...] = ()  # neither paused nor refused, by id
    profile: Profile | None = None
    profile_status: str = NO_PROFILE
    why: str = ""  # the profile is stale or refused
    thresholds: tuple[float, ...] = ()  # rising

    @property
    def key(self) -> bytes:
        return (PROFILE_PREFIX + self.name).encode()

    def require_seeds(self) -> "EventState":
        if not self.seeds:
            raise InputError(f"event {self.name!r}: has no seed that matches; add an article")
        return self


def events_of(state: ControlState, seeds: SeedSet) -> dict[str, EventState]:
    """Events by name; `seeds` is the set that a worker makes of the state."""
    why = {profile.id: (PROFILE_STALE, profile.reason) for profile in seeds.stale}
    why |= {refusal.id: (PROFILE_REFUSED, refusal.reason) for refusal in seeds.refused}
    by_event: dict[str, list[Seed]] = {}
    for seed in sorted(state.seeds.values(), key=lambda seed: seed.id):
        if not seed.paused and seed.id not in why:
            by_event.setdefault(seed.event, []).append(seed)
    events = {name: EventState(name, tuple(matching)) for name, matching in by_event.items()}
    for name, profile in state.profiles.items():
        status, reason = why.get(profile.id, (IN_FORCE, ""))
        event = events.get(name, EventState(name))
        events[name] = replace(event, profile=profile, profile_status=status, why=reason)
    for refusal in state.refused.values():
        if refusal.id.startswith(PROFILE_PREFIX):
            name = refusal.id.removeprefix(PROFILE_PREFIX)
            event = events.get(name, EventState(name))
            events[name] = replace(event, profile_status=PROFILE_REFUSED, why=refusal.reason)
    thresholds = thresholds_by_event(seeds)
    return {
        name: replace(events[name], thresholds=thresholds.get(name, ())) for name in sorted(events)
    }


def thresholds_by_event(seeds: SeedSet) -> dict[str, tuple[float, ...]]:
    """Rising."""
    thresholds: dict[str, list[float]] = {}
    for seed, threshold in zip(seeds.seeds, seeds.thresholds.tolist(), strict=True):
        thresholds.setdefault(seed.event, []).append(threshold)
    return {name: tuple(sorted(values)) for name, values in thresholds.items()}


def lowest_and_highest(rising: Sequence[float]) -> list[float]:
    """Two thresholds, or none where there is none."""
    return [*rising[:1], *rising[-1:]]


def unknown_event(name: str) -> InputError:
    return InputError(f"event {name!r}: there is none of this name; see newsift events list")


def require_event(events: Mapping[str, EventState], name: str) -> EventState:
    if name not in events:
        raise unknown_event(name)
    return events[name]


def attempts_of(profile: Profile | None) -> int:
    """How often the event was tested for a burst."""
    return _count_in(profile.made if profile else {}, "attempts")


def promises_of(profile: Profile | None) -> int:
    """The number of the newest test that the profile and those before it have a promise by."""
    if profile is None:
        return 0
    counts = [_count_in(profile.made, "promises")]
    for record in (profile.record(), *profile.before):
        promise = record.get("promise")
        counts.append(_count_in(promise if isinstance(promise, dict) else {}, "test"))
    return max(counts)


def next_test(profile: Profile | None, labels: Iterable[Label]) -> int:
    return min(max(promises_of(profile), newest_test(labels)) + 1, MAX_TESTS)


def _count_in(record: dict[str, Any], name: str) -> int:
    """0 if the record, which anybody may have written, has no such count."""
    count = record.get(name)
    return min(max(count, 0), MAX_COUNT) if type(count) is int else 0


@dataclass(frozen=True, slots=True)
class PromiseTarget:
    """The precision and confidence that one draw is to prove."""

    precision: float
    confidence: float
    test: int  # its number among the event's draws: the higher, the more labels it takes

    @classmethod
    def of_draw(
        cls, draw: QueueName | None, profile: Profile | None, labels: Iterable[Label], goal: Goal
    ) -> Self:
        """A draw without a number, and none yet, are the next test of the event."""
        if draw is not None and draw.test:
            return cls(*goal, draw.test)
        test = (profile.promise or {}).get("test") if profile else None
        if type(test) is int and 0 < test <= MAX_COUNT:
            return cls(*goal, test)
        return cls(*goal, next_test(profile, labels))

    @property
    def test_confidence(self) -> float:
        """Of this test, so that all tests together have the stated confidence."""
        return confidence_of_test(self.confidence, self.test)

    def promised_from(self, profile: Profile | None) -> float | None:
        """The threshold from which the profile has this promise; None if it has another or none."""
        promise = (profile.promise or {}) if profile else {}
        is_this = (promise.get("precision"), promise.get("confidence")) == (
            self.precision, self.confidence,
        )  # fmt: skip
        return profile.threshold if profile and is_this else None
