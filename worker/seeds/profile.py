"""Event profiles: a record of the control topic → what an event has learned from its posts."""

import hashlib
import json
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Self

from encoder.errors import InputError
from worker.config import DEFAULT_LIMITS, Limits
from worker.seeds.record import PREFIX, TAKEN, RefusedSeed, Seed, admitted, read_seed
from worker.seeds.values import EVENT_BYTES, event_in, kind_of, string_in, threshold_in
from worker.seeds.vectors import MOST_CHARS, EventVector

KEPT_BEFORE = 3
DIGEST_CHARS = 256


@dataclass(frozen=True, slots=True)
class Profile:
    """What posts are compared with in the place of an event's seeds, while it is in force."""

    title: ClassVar[str] = ""
    url: ClassVar[None] = None

    event: str
    vectors: str  # as the record has it; its digest is the version
    seeds: dict[str, str]  # those it stands for, each with its version
    model: str
    threshold: float | None = None
    promise: dict[str, Any] | None = None
    made: dict[str, Any] = field(default_factory=dict)
    before: tuple[dict[str, Any], ...] = ()  # records of earlier versions, newest first
    vector: EventVector = field(init=False, repr=False, compare=False)
    content: str = field(init=False)  # the digest of the vectors
    version: str = field(init=False)  # 12 of its hex digits

    def __post_init__(self) -> None:
        if not 0 < len(self.event.encode()) <= EVENT_BYTES:
            raise InputError(f"event: {self.event[:40]!r} is empty, or over {EVENT_BYTES} bytes")
        if not self.seeds:
            raise InputError("seeds: names none; name those that the event was learned from")
        if not all(isinstance(version, str) for version in self.seeds.values()):
            raise InputError("seeds: a version is no string; write {seed id: seed_version}")
        if not self.model:
            raise InputError("model: missing; give the digest of the model it was learned with")
        if len(self.before) > KEPT_BEFORE:
            raise InputError(f"before: {len(self.before)} versions, {KEPT_BEFORE} are allowed")
        object.__setattr__(self, "vector", EventVector.read(self.vectors))
        object.__setattr__(self, "content", hashlib.sha256(self.vectors.encode()).hexdigest())
        object.__setattr__(self, "version", self.content[:12])

    @property
    def id(self) -> str:
        """The id that matches name: the key of its record."""
        return PREFIX + self.event

    def record(self) -> dict[str, Any]:
        """The profile as its record says it."""
        said: dict[str, Any] = {"event": self.event, "vectors": self.vectors, "seeds": self.seeds}
        said |= {"model": self.model, "threshold": self.threshold, "promise": self.promise}
        said |= {"made": self.made, "before": list(self.before)}
        return {name: value for name, value in said.items() if value is not None}

    def value(self, limits: Limits = DEFAULT_LIMITS) -> bytes:
        """The value of its record, with as many of the versions before it as there is room for."""
        made = json.dumps(self.record()).encode()
        if len(made) <= limits.article_bytes:
            return made
        if not self.before:
            told = f"{len(made)} bytes, {limits.article_bytes} are allowed; name fewer posts"
            raise InputError(f"limits.article_bytes: {told}")
        return replace(self, before=self.before[:-1]).value(limits)

    def history(self) -> tuple[dict[str, Any], ...]:
        """What the next version has to keep in its `before`."""
        now = {name: value for name, value in self.record().items() if name != "before"}
        return tuple(islice([now, *self.before], KEPT_BEFORE))

    def previous(self) -> Self | None:
        """The version before this one, with those before it."""
        if not self.before:
            return None
        earlier = self.before[0] | {"event": self.event, "before": list(self.before[1:])}
        return type(self)(**parts(earlier))


Compared = Seed | Profile


def read_record(
    key: bytes | None, value: bytes | None, limits: Limits = DEFAULT_LIMITS
) -> Compared | RefusedSeed | None:
    """What a control record holds, or why it is refused; None where it deletes."""
    if key is not None and key.startswith(PREFIX.encode()):
        return admitted(key, value, limits, _profile)
    return read_seed(key, value, limits)


def _profile(name: str, given: dict[str, Any], _limits: Limits) -> Profile:
    if "text" in given and "vectors" not in given:
        raise InputError(TAKEN)
    found = Profile(**parts(given))
    if found.id != name:
        raise InputError(f"event: {found.event[:40]!r} is not that of the key, {name[:60]!r}")
    return found


def parts(given: dict[str, Any]) -> dict[str, Any]:
    """What a profile is made of, out of its record; refused where a value is of another kind."""
    before = _of_kind(given, "before", list, [])
    if not all(isinstance(version, dict) for version in before):
        raise InputError("before: a version is no object; leave it out")
    return {
        "event": event_in(given),
        "vectors": string_in(given, "vectors", MOST_CHARS),
        "seeds": _of_kind(given, "seeds", dict, {}),
        "model": string_in(given, "model", DIGEST_CHARS),
        "threshold": threshold_in(given.get("threshold")),
        "promise": _of_kind(given, "promise", dict, None),
        "made": _of_kind(given, "made", dict, {}),
        "before": tuple(before),
    }


def _of_kind(given: dict[str, Any], key: str, kind: type, absent: Any) -> Any:
    value = given.get(key)
    if value is None:
        return absent
    if not isinstance(value, kind):
        expected = "an array" if kind is list else "an object"
        raise InputError(f"{key}: {kind_of(value)}, expected {expected}")
    return value
