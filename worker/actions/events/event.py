"""Events as the control topic has them: their seeds, their profiles, and what is in force."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from encoder.errors import InputError
from worker.actions.keyed import Latest
from worker.config import Limits
from worker.seeds.profile import Profile, read_record
from worker.seeds.record import PREFIX, RefusedSeed, Seed
from worker.seeds.set import SeedBook, SeedSet

IN_FORCE, STALE, REFUSED, NONE = "in force", "stale", "refused", "none"

Values = Mapping[bytes | None, bytes]  # the latest values of a control topic, by key


@dataclass(frozen=True, slots=True)
class KnownEvent:
    """What there is of an event."""

    name: str
    seeds: tuple[Seed, ...] = ()  # those that are to match, by their ids
    profile: Profile | None = None
    state: str = NONE
    why: str = ""  # it is stale or refused
    thresholds: tuple[float, ...] = ()  # that its posts have to reach now, rising

    @property
    def key(self) -> bytes:
        """The key of its profile."""
        return (PREFIX + self.name).encode()

    def taught(self) -> "KnownEvent":
        """The event, which has to have seeds to learn from."""
        if not self.seeds:
            raise InputError(f"event {self.name!r}: has no seed that matches; add an article")
        return self


def values_of(latest: Latest) -> Values:
    """The values of the latest records that delete nothing."""
    return {key: record.value for key, record in latest.items() if record.value is not None}


def book_of(values: Values, limits: Limits) -> SeedBook:
    """The book of seeds that these records make."""
    book = SeedBook(limits)
    for key, value in values.items():
        book.apply(key, value)
    return book


def with_its_seeds(key: bytes, values: Values, limits: Limits) -> Values:
    """A record, and those of the seeds that it stands for if it is a profile."""
    found = read_record(key, values[key], limits)
    names = found.seeds if isinstance(found, Profile) else {}
    keys = (key, *(name.encode("utf-8", "replace") for name in names))
    return {each: values[each] for each in keys if each in values}


def alone(event: KnownEvent, values: Values, profile: bytes | None) -> Values:
    """The records of this event and no other, with this profile in the place of its own."""
    keys = (seed.id.encode() for seed in event.seeds)
    kept: dict[bytes | None, bytes] = {key: values[key] for key in keys}
    return kept if profile is None else kept | {event.key: profile}


def events_in(values: Values, seeds: SeedSet, limits: Limits) -> dict[str, KnownEvent]:
    """All events by name, as a worker with this set of seeds sees them."""
    found: dict[str, KnownEvent] = {}
    why = {each.id: (STALE, each.reason) for each in seeds.stale}
    why |= {each.id: (REFUSED, each.reason) for each in seeds.refused}
    for key, value in sorted(values.items(), key=lambda pair: pair[0] or b""):
        record = read_record(key, value, limits)
        if isinstance(record, Profile):
            state, reason = why.get(record.id, (IN_FORCE, ""))
            event = found.get(record.event, KnownEvent(record.event))
            found[event.name] = replace(event, profile=record, state=state, why=reason)
        elif isinstance(record, RefusedSeed) and record.id.startswith(PREFIX):
            name = record.id.removeprefix(PREFIX)
            found[name] = replace(
                found.get(name, KnownEvent(name)), state=REFUSED, why=record.reason
            )
        elif isinstance(record, Seed) and not record.paused and record.id not in why:
            event = found.get(record.event, KnownEvent(record.event))
            found[event.name] = replace(event, seeds=(*event.seeds, record))
    cuts = thresholds_by_event(seeds)
    return {name: replace(found[name], thresholds=cuts.get(name, ())) for name in sorted(found)}


def thresholds_by_event(seeds: SeedSet) -> dict[str, tuple[float, ...]]:
    """The thresholds that posts of each event have to reach, rising."""
    found: dict[str, list[float]] = {}
    for seed, cut in zip(seeds.seeds, seeds.thresholds.tolist(), strict=True):
        found.setdefault(seed.event, []).append(cut)
    return {name: tuple(sorted(cuts)) for name, cuts in found.items()}


def the_event(events: Mapping[str, KnownEvent], name: str) -> KnownEvent:
    """The event of this name, or a refusal."""
    if name not in events:
        raise InputError(f"event {name!r}: there is none of this name; see newsift events list")
    return events[name]
