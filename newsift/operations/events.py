"""Events of the control topic with their seeds, profiles and thresholds; targets of promises."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from encoder.errors import InputError
from newsift.statistics.promise import confidence_of_version
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
    """How many versions of the profile were tested for a promise."""
    if profile is None:
        return 0
    counts = [_count_in(profile.made, "promises")]
    for record in (profile.record(), *profile.before):
        promise = record.get("promise")
        counts.append(_count_in(promise if isinstance(promise, dict) else {}, "version"))
    return max(counts)


def _count_in(record: dict[str, Any], name: str) -> int:
    """0 if the record, which anybody may have written, has no such count."""
    count = record.get(name)
    return min(max(count, 0), MAX_COUNT) if type(count) is int else 0


@dataclass(frozen=True, slots=True)
class PromiseTarget:
    """The precision and confidence that one version of a profile promises."""

    precision: float
    confidence: float
    version: int  # of those that were tested: the more, the more labels it takes

    @classmethod
    def for_profile(
        cls, profile: Profile | None, precision: float = 0.8, confidence: float = 0.9
    ) -> Self:
        version = (profile.promise or {}).get("version") if profile else None
        if type(version) is int and 0 < version <= MAX_COUNT:
            return cls(precision, confidence, version)
        return cls(precision, confidence, promises_of(profile) + 1)

    @property
    def test_confidence(self) -> float:
        """Of this test, so that all versions together have the stated confidence."""
        return confidence_of_version(self.confidence, self.version)

    def promised_from(self, profile: Profile | None) -> float | None:
        """The threshold from which the profile has this promise; None if it has another or none."""
        promise = (profile.promise or {}) if profile else {}
        is_this = (promise.get("precision"), promise.get("confidence")) == (
            self.precision, self.confidence,
        )  # fmt: skip
        return profile.threshold if profile and is_this else None
