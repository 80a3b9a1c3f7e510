"""The state of the control topic as one value: the latest record of each key counts.

`ControlReducer` applies records in offset order. `ControlState` is the result at one moment.
`Resolution` says which profiles replace their seeds with a given model.
"""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import NamedTuple

from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.seeds.profile import Profile, SeedOrProfile, parse_control_record
from worker.seeds.record import MAX_KEY_BYTES, PROFILE_PREFIX, RefusedSeed, Seed
from worker.seeds.reducer import TopicRecord, TopicReducer

RECORD_OVERHEAD_BYTES = 512
MODEL_UNKNOWN = "the model that profiles are compared by is not known"


@dataclass(frozen=True, slots=True)
class ControlRecord:
    """The latest record of a key."""

    key: bytes | None
    value: bytes
    timestamp: int = -1  # milliseconds, Kafka's
    offset: int = field(default=0, compare=False)
    partition: int = field(default=0, compare=False)


class Status(NamedTuple):
    """The status of a seed or profile at some time."""

    state: str  # live | expired | paused | replaced | stale | refused | unknown
    reason: str = ""  # of the last three
    replaced_by: str = ""  # the profile in the seed's place
    ends_at: int | None = None  # milliseconds; None for never


@dataclass(frozen=True, slots=True, order=True)
class StaleProfile:
    """A profile that is not in force; its seeds are used instead."""

    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What decides whether a model can use a profile."""

    digest: str
    dim: int
    mix: float
    # why the profile can have no automatic threshold at the configured rate; else empty
    rate_error: Callable[[Profile], str] = lambda profile: ""


@dataclass(frozen=True)
class ControlState:
    """The control topic at one moment; immutable.

    Seeds and profiles beyond `limits.seeds` are refused: the first by id stay. Paused seeds do not
    count; profiles are counted on their own, stale or not.
    """

    seeds: Mapping[str, Seed]  # the valid ones, paused or not, by id
    profiles: Mapping[str, Profile]  # the valid ones by event
    refused: Mapping[bytes, RefusedSeed]  # by key; one that is too long by its SHA-512
    records: Mapping[bytes, ControlRecord] = field(repr=False)  # empty where values are not kept
    left_out: int = 0  # records without room
    unreadable: int = 0  # records in batches that could not be read
    complete: bool = False  # read to the end that the topic had when the reading began
    offsets: Mapping[int, int] = field(default_factory=dict, compare=False)  # next, by partition

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all keys and values, in hex; their order does not matter."""
        digests = sorted(_record_digest(record) for record in self.records.values())
        return hashlib.sha256(b"".join(digests)).hexdigest()

    @property
    def offset(self) -> int:
        """The next offset; the sum over partitions."""
        return sum(self.offsets.values())

    @property
    def version(self) -> str:
        """For people: how far the topic was read, and the digest."""
        return f"offset {self.offset}, digest {self.digest[:12]}"

    @cached_property
    def paused(self) -> tuple[Seed, ...]:
        """Paused seeds by id."""
        paused = (seed for seed in self.seeds.values() if seed.paused)
        return tuple(sorted(paused, key=lambda seed: seed.id))

    def content(self, key: bytes) -> SeedOrProfile | RefusedSeed | None:
        if refusal := self.refused.get(table_key(key)):
            return refusal
        name = key.decode("utf-8", "replace")
        if name.startswith(PROFILE_PREFIX):
            return self.profiles.get(name.removeprefix(PROFILE_PREFIX))
        return self.seeds.get(name)

    def of_events(self, events: Set[str]) -> "ControlState":
        seeds = (seed for seed in self.seeds.values() if seed.event in events)
        return build_state(
            [*seeds, *(self.profiles[name] for name in events & self.profiles.keys())]
        )

    def of_one(self, content: SeedOrProfile) -> "ControlState":
        """One seed, or a profile with the seeds that it replaces."""
        names = content.seeds if isinstance(content, Profile) else ()
        return build_state([content, *(self.seeds[name] for name in names if name in self.seeds)])

    def with_contents(self, contents: Sequence[SeedOrProfile]) -> "ControlState":
        """Added, or in place of those of the same ids."""
        new, ids = build_state(contents), {content.id for content in contents}
        refusals = {key: seed for key, seed in self.refused.items() if seed.id not in ids}
        seeds, profiles = {**self.seeds, **new.seeds}, {**self.profiles, **new.profiles}
        return replace(self, seeds=seeds, profiles=profiles, refused=refusals)

    def value(self, key: bytes) -> bytes | None:
        record = self.records.get(table_key(key))
        return None if record is None else record.value

    def resolve(self, model: ModelFacts | None, unknown: str = MODEL_UNKNOWN) -> "Resolution":
        """Which profiles are in force with this model; unknown without one."""
        compared: dict[str, SeedOrProfile] = {
            name: seed for name, seed in self.seeds.items() if not seed.paused
        }
        ends: dict[str, int | None] = {}
        idle: dict[str, Status] = {}
        for profile in self.profiles.values():
            if model is None:
                idle[profile.id] = Status("unknown", unknown)
            elif reason := stale_reason(profile, self.seeds, model.digest):
                idle[profile.id] = Status("stale", reason)
            elif reason := profile_error(profile, model):
                idle[profile.id] = Status("refused", reason)
            else:
                for name in profile.seeds:
                    del compared[name]
                    end = self.seeds[name].expires_at
                    idle[name] = Status("replaced", replaced_by=profile.id, ends_at=end)
                compared[profile.id] = profile
                expiries = [self.seeds[name].expires_at for name in profile.seeds]
                some = [end for end in expiries if end is not None]
                ends[profile.id] = max(some) if len(some) == len(expiries) else None
        return Resolution(self, compared, ends, idle)

    def status(self, name: str, at_ms: int) -> Status:
        """The status of an existing seed, as far as the records alone decide it."""
        if (seed := self.seeds.get(name)) is None:
            return Status("refused", self.refused[table_key(name.encode())].reason)
        return seed_status(seed, at_ms)


@dataclass(frozen=True)
class Resolution:
    """Which profiles are in force with a model."""

    state: ControlState
    compared: Mapping[str, SeedOrProfile]  # by id: profiles in force, and seeds that none replaces
    ends: Mapping[str, int | None]  # of these profiles: milliseconds, that of the last seed
    _idle: Mapping[str, Status]  # profiles not in force, and replaced seeds

    @cached_property
    def stale(self) -> tuple[StaleProfile, ...]:
        """Stale profiles by id."""
        stale = (pair for pair in self._idle.items() if pair[1].state == "stale")
        return tuple(sorted(StaleProfile(name, status.reason) for name, status in stale))

    @cached_property
    def refused(self) -> tuple[RefusedSeed, ...]:
        """Profiles that the model cannot use, by id."""
        refused = (pair for pair in self._idle.items() if pair[1].state == "refused")
        return tuple(sorted(RefusedSeed(name, status.reason) for name, status in refused))

    def status(self, name: str, at_ms: int) -> Status:
        if idle := self._idle.get(name):
            return idle
        if isinstance(self.compared.get(name), Profile):
            return _status_until(self.ends[name], at_ms)
        return self.state.status(name, at_ms)


def seed_status(seed: Seed, at_ms: int) -> Status:
    """Without the profile that may replace it."""
    if seed.paused:
        return Status("paused", ends_at=seed.expires_at)
    return _status_until(seed.expires_at, at_ms)


def _status_until(end: int | None, at_ms: int) -> Status:
    return Status("expired" if end is not None and end <= at_ms else "live", ends_at=end)


class ControlReducer(TopicReducer[ControlState]):
    def __init__(
        self, limits: Limits = DEFAULT_LIMITS, room: int | None = None, values: bool = True
    ) -> None:
        """`room` bounds the bytes of all records, if given.

        Without `values` only what matching needs is stored: no bytes of records, and no history,
        promise or provenance of a profile.
        """
        super().__init__()
        self._limits, self._room, self._values = limits, room, values
        self._seeds: dict[str, Seed] = {}
        self._profiles: dict[str, Profile] = {}
        self._refused: dict[bytes, RefusedSeed] = {}
        self._records: dict[bytes, ControlRecord] = {}
        self._sizes: dict[bytes, int] = {}  # where there is a room
        self._active_count = 0  # seeds that are not paused
        self._shared = False  # the tables belong to a snapshot: copy them before a change

    def _state(self, offsets: Mapping[int, int]) -> ControlState:
        self._shared = True
        seeds, profiles, refusals = self._within_limits()
        return ControlState(
            MappingProxyType(seeds), MappingProxyType(profiles), MappingProxyType(refusals),
            MappingProxyType(self._records), self._left_out, self._unreadable, self._complete,
            offsets,
        )  # fmt: skip

    def _put(self, record: TopicRecord) -> None:
        self._own_tables()
        key, value = table_key(record.key or b""), record.value
        self._remove(key)
        if value is None:
            return
        if self._room is not None:
            size = RECORD_OVERHEAD_BYTES + len(key) + len(value)
            if size > self._room:
                self._left_out += 1
                return
            self._room -= size
            self._sizes[key] = size
        if self._values:
            self._records[key] = ControlRecord(
                record.key, value, record.timestamp, record.offset, record.partition
            )
        content = parse_control_record(record.key, value, self._limits)
        if isinstance(content, Seed):
            self._seeds[content.id] = content
            self._active_count += not content.paused
        elif isinstance(content, Profile):
            self._profiles[content.event] = content if self._values else content.without_history()
        elif content is not None:
            self._refused[key] = content

    def _remove(self, key: bytes) -> None:
        self._records.pop(key, None)
        if self._room is not None:
            self._room += self._sizes.pop(key, 0)
        if self._refused.pop(key, None):
            return
        name = key.decode("utf-8", "surrogateescape")  # which no id holds
        if name.startswith(PROFILE_PREFIX):
            self._profiles.pop(name.removeprefix(PROFILE_PREFIX), None)
        elif seed := self._seeds.pop(name, None):
            self._active_count -= not seed.paused

    def _own_tables(self) -> None:
        """Copies the tables that a state shares."""
        if self._shared:
            self._seeds, self._profiles = self._seeds.copy(), self._profiles.copy()
            self._refused, self._records = self._refused.copy(), self._records.copy()
            self._shared = False

    def _within_limits(
        self,
    ) -> tuple[dict[str, Seed], dict[str, Profile], dict[bytes, RefusedSeed]]:
        seeds, profiles, most = self._seeds, self._profiles, self._limits.seeds
        if self._active_count <= most and len(profiles) <= most:
            return seeds, profiles, self._refused
        excess = sorted(name for name, seed in seeds.items() if not seed.paused)[most:]
        excess += sorted(profile.id for profile in profiles.values())[most:]
        reason = f"limits.seeds: {most} are allowed, and as many come before it by their ids"
        refused_ids = {name: RefusedSeed(name, reason) for name in excess}
        return (
            {name: seed for name, seed in seeds.items() if name not in refused_ids},
            {name: content for name, content in profiles.items() if content.id not in refused_ids},
            self._refused | {name.encode(): content for name, content in refused_ids.items()},
        )


def parse_control_state(
    values: Mapping[bytes, bytes], limits: Limits = DEFAULT_LIMITS
) -> ControlState:
    reducer = ControlReducer(limits)
    reducer.apply(
        ControlRecord(key, value, offset=offset)
        for offset, (key, value) in enumerate(values.items())
    )
    reducer.finish()
    return reducer.snapshot()


def build_state(contents: Iterable[SeedOrProfile]) -> ControlState:
    """The last content of an id counts."""
    seeds, profiles = dict[str, Seed](), dict[str, Profile]()
    for content in contents:
        if isinstance(content, Seed):
            seeds[content.id] = content
        else:
            profiles[content.event] = content
    return ControlState(seeds, profiles, {}, {}, complete=True)


def table_key(key: bytes) -> bytes:
    """A key that is too long for a seed is replaced by its digest."""
    return key if len(key) <= MAX_KEY_BYTES else hashlib.sha512(key).digest()


def profile_error(profile: Profile, model: ModelFacts) -> str:
    """Why this model cannot use a profile, or ""."""
    axes = len(profile.vector.dense)
    if axes != model.dim:
        return f"vectors: {axes} axes, the model has {model.dim}; learn the event again"
    if len(profile.vector.slots) and not model.mix:
        return "vectors: has words, which the model does not read; learn the event again"
    return model.rate_error(profile)


def stale_reason(profile: Profile, seeds: Mapping[str, Seed], model: str) -> str:
    """Why a profile does not fit its seeds and model, or ""."""
    if profile.model != model:
        return f"model: learned with {profile.model[:12]!r}, the worker's is {model[:12]!r}"
    for name, version in sorted(profile.seeds.items()):
        quote, seed = repr(name[:60]), seeds.get(name)
        if seed is None:
            return f"seeds: {quote} does not exist any more"
        if seed.version != version:
            return f"seeds: {quote} has changed since"
        if seed.event != profile.event:
            return f"seeds: {quote} belongs to another event now"
        if seed.paused:
            return f"seeds: {quote} is paused"
    return ""


def _record_digest(record: ControlRecord) -> bytes:
    key = record.key or b""
    return hashlib.sha256(b"%d:%b" % (len(key), key) + record.value).digest()
