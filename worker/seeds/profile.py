"""The profile of an event: its record, and its vector of dense axes and words.

It is scaled like `Embeddings.as_vectors`, so that its product with a post is the score.
"""

import base64
import hashlib
import json
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from encoder.embeddings import UNIT_SLACK, Embeddings
from encoder.errors import InputError, MismatchError, one_line
from encoder.model.weights import F32, I32
from encoder.score.exact import pair_scores
from encoder.score.lexical import SLOTS, SparseRows
from encoder.support.readonly import frozen, read_only
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.seeds.record import (
    MAX_EVENT_BYTES,
    PREFIX_TAKEN,
    PROFILE_PREFIX,
    RefusedSeed,
    Seed,
    json_type,
    parse_event,
    parse_record,
    parse_seed_record,
    parse_string,
    parse_threshold,
)

MAX_WORDS = 10_000  # A record with three earlier versions fits into article_bytes.
MAX_AXES = 2**13
MAX_VECTOR_CHARS = 2**18  # The largest vector takes less.
VECTOR_TYPES = {"dense": np.float32, "slots": np.int32, "weights": np.float32}
MAX_LENGTH_ERROR = UNIT_SLACK / 2  # Rounding must not make a row that cannot be compared.
REMEDY = "learn the event again"


@dataclass(frozen=True, slots=True, eq=False)
class EventVector:
    """A vector of length one; negative weights count against a post."""

    dense: F32  # [d]
    slots: I32  # [words], rising
    weights: F32  # [words], which may be negative

    def __post_init__(self) -> None:
        for name, kind in VECTOR_TYPES.items():
            array = getattr(self, name)
            if not isinstance(array, np.ndarray) or array.dtype != kind or array.ndim != 1:
                problem = f"{name} is not a flat array of {kind.__name__}"
                raise InputError(f"vectors: {problem}; {REMEDY}")
            object.__setattr__(self, name, read_only(array))
        axes, words = len(self.dense), len(self.slots)
        if not 0 < axes <= MAX_AXES or words > MAX_WORDS or words != len(self.weights):
            raise InputError(
                f"vectors: {axes} axes, {words} slots and {len(self.weights)} weights; as many "
                f"weights as slots, {MAX_AXES} axes and {MAX_WORDS} slots are allowed; {REMEDY}"
            )
        if (np.diff(self.slots) < 0).any():  # a record may hold them in any order
            order = np.argsort(self.slots, kind="stable")
            for name in ("slots", "weights"):
                object.__setattr__(self, name, frozen(getattr(self, name)[order]))
        bounds = np.concatenate([[-1], self.slots, [SLOTS]])
        if not (bounds[1:] > bounds[:-1]).all():
            raise InputError(
                f"vectors: a slot occurs twice, or is not from 0 to {SLOTS - 1}; {REMEDY}"
            )
        size = vector_length(self.dense, self.weights)
        if not abs(size - 1) <= MAX_LENGTH_ERROR:
            raise InputError(
                f"vectors: {size:.4g} long; together they must have length 1; {REMEDY}"
            )

    def __repr__(self) -> str:
        return f"EventVector(dim {len(self.dense)}, {len(self.slots)} words)"

    @classmethod
    def normalised(cls, dense: F32, slots: I32, weights: F32) -> Self:
        """A vector of length one, with the heaviest words only."""
        heavy = np.sort(np.argsort(-np.abs(weights), kind="stable")[:MAX_WORDS])
        size = vector_length(dense, weights[heavy])
        if not 0 < size < np.inf:
            raise InputError(f"vectors: {size:.4g} long, which is not a direction")
        unit_dense = np.asarray(dense / size, np.float32)
        unit_weights = np.asarray(weights[heavy] / size, np.float32)
        return cls(unit_dense, slots[heavy], unit_weights)

    @classmethod
    def decode(cls, text: object) -> Self:
        """The inverse of `encode`; a hostile text costs no more than its bytes."""
        if not isinstance(text, str):
            raise InputError("vectors: expected a string, base64 of safetensors")
        if len(text) > MAX_VECTOR_CHARS:
            raise InputError(
                f"vectors: {len(text)} characters, {MAX_VECTOR_CHARS} are allowed; {REMEDY}"
            )
        arrays = decode_arrays(text)
        if missing := [name for name in VECTOR_TYPES if name not in arrays]:
            raise InputError(f"vectors: {missing[0]} is missing; {REMEDY}")
        return cls(*(frozen(arrays[name].copy()) for name in VECTOR_TYPES))

    def encode(self) -> str:
        """Base64 of safetensors, the same on every machine."""
        return base64.b64encode(save({name: getattr(self, name) for name in VECTOR_TYPES})).decode()

    def as_row(self, mix: float, digest: str) -> Embeddings:
        """The vector in the form of an article's embedding."""
        if not mix and len(self.slots):
            raise MismatchError(f"vectors: has words, which the model does not read; {REMEDY}")
        dense = self.dense[None] / np.float32(np.sqrt(1 - mix))  # [1, d]
        weights = self.weights / np.float32(np.sqrt(mix or 1))
        ends = np.array([0, len(self.slots)], np.int64)
        words = SparseRows(frozen(ends), self.slots, frozen(weights))
        return Embeddings(frozen(dense), words, mix, digest)

    def scores(self, posts: Embeddings) -> F32:
        """Equal to those of matching, to the bit: [n]."""
        if len(self.dense) != posts.dense.shape[1]:
            raise MismatchError(
                f"vectors: {len(self.dense)} axes, the model has {posts.dense.shape[1]}; {REMEDY}"
            )
        row = self.as_row(posts.mix, posts.digest)
        pairs = np.stack([np.arange(len(posts)), np.zeros(len(posts), np.int64)], axis=1)
        return pair_scores(posts, row, pairs)


def decode_arrays(text: str) -> dict[str, NDArray[Any]]:
    """Decodes arrays from base64 of safetensors."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError as error:
        raise InputError(f"vectors: no base64 ({error}); {REMEDY}") from None
    try:
        return load(raw)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError) as error:
        fault = one_line(str(error), 99)
        raise InputError(f"vectors: no safetensors ({fault}); {REMEDY}") from None


def vector_length(dense: NDArray[np.floating], weights: NDArray[np.floating]) -> float:
    """NaN or infinite if a number is."""
    both = np.concatenate([dense, weights]).astype(np.float64)
    return float(np.sqrt(both @ both))


MAX_EARLIER_VERSIONS = 3
MAX_DIGEST_CHARS = 256


@dataclass(frozen=True, slots=True)
class Profile:
    """Replaces an event's seeds while it is in force."""

    title: ClassVar[str] = ""
    url: ClassVar[None] = None

    event: str
    vectors: str  # as the record has it; its digest is the version
    seeds: dict[str, str]  # the seeds it replaces, each with its version
    model: str
    threshold: float | None = None
    skim_threshold: float | None = None  # of a promise, as its draw had it
    promise: dict[str, Any] | None = None
    made: dict[str, Any] = field(default_factory=dict)
    before: tuple[dict[str, Any], ...] = ()  # records of earlier versions, newest first
    vector: EventVector = field(init=False, repr=False, compare=False)
    content: str = field(init=False)  # the digest of the vectors
    version: str = field(init=False)  # 12 of its hex digits

    def __post_init__(self) -> None:
        if not 0 < len(self.event.encode()) <= MAX_EVENT_BYTES:
            raise InputError(
                f"event: {self.event[:40]!r} is empty, or over {MAX_EVENT_BYTES} bytes"
            )
        if not self.seeds:
            raise InputError("seeds: names none; name those that the event was learned from")
        if not all(isinstance(version, str) for version in self.seeds.values()):
            raise InputError("seeds: a version is not a string; write {seed id: seed_version}")
        if not self.model:
            raise InputError("model: missing; give the digest of the model it was learned with")
        if len(self.before) > MAX_EARLIER_VERSIONS:
            raise InputError(
                f"before: {len(self.before)} versions, {MAX_EARLIER_VERSIONS} are allowed"
            )
        object.__setattr__(self, "vector", EventVector.decode(self.vectors))
        object.__setattr__(self, "content", hashlib.sha256(self.vectors.encode()).hexdigest())
        object.__setattr__(self, "version", self.content[:12])

    @property
    def id(self) -> str:
        """Also the key of the record."""
        return PROFILE_PREFIX + self.event

    def record(self) -> dict[str, Any]:
        record: dict[str, Any] = {"event": self.event, "vectors": self.vectors, "seeds": self.seeds}
        record |= {"model": self.model, "threshold": self.threshold}
        record |= {"skim_threshold": self.skim_threshold, "promise": self.promise}
        record |= {"made": self.made, "before": list(self.before)}
        return {name: value for name, value in record.items() if value is not None}

    def value(self, limits: Limits = DEFAULT_LIMITS) -> bytes:
        """The record, with as many earlier versions as fit."""
        value = json.dumps(self.record()).encode()
        if len(value) <= limits.article_bytes:
            return value
        if not self.before:
            fault = f"{len(value)} bytes, {limits.article_bytes} are allowed; name fewer posts"
            raise InputError(f"limits.article_bytes: {fault}")
        return replace(self, before=self.before[:-1]).value(limits)

    def history(self) -> tuple[dict[str, Any], ...]:
        """The `before` of the next version."""
        now = {name: value for name, value in self.record().items() if name != "before"}
        return tuple(islice([now, *self.before], MAX_EARLIER_VERSIONS))

    def without_history(self) -> Self:
        """A copy without history, promise and provenance, which matching does not need."""
        if not (self.before or self.made or self.promise):
            return self
        bare = copy(self)  # its vectors are not read again
        for name, empty in (("before", ()), ("made", {}), ("promise", None)):
            object.__setattr__(bare, name, empty)
        return bare

    def previous(self) -> Self | None:
        """The previous version with its own history."""
        if not self.before:
            return None
        earlier = self.before[0] | {"event": self.event, "before": list(self.before[1:])}
        return type(self)(**profile_fields(earlier))


SeedOrProfile = Seed | Profile


def parse_control_record(
    key: bytes | None, value: bytes | None, limits: Limits = DEFAULT_LIMITS
) -> SeedOrProfile | RefusedSeed | None:
    """Parses a seed or profile; None for a deletion."""
    if key is not None and key.startswith(PROFILE_PREFIX.encode()):
        return parse_record(key, value, limits, _make_profile)
    return parse_seed_record(key, value, limits)


def _make_profile(name: str, values: dict[str, Any], _limits: Limits) -> Profile:
    if "text" in values and "vectors" not in values:
        raise InputError(PREFIX_TAKEN)
    profile = Profile(**profile_fields(values))
    if profile.id != name:
        raise InputError(f"event: {profile.event[:40]!r} is not that of the key, {name[:60]!r}")
    return profile


def profile_fields(values: dict[str, Any]) -> dict[str, Any]:
    """Raises for a value of the wrong type."""
    before = _typed_value(values, "before", list, [])
    if not all(isinstance(version, dict) for version in before):
        raise InputError("before: a version is not an object; leave it out")
    return {
        "event": parse_event(values),
        "vectors": parse_string(values, "vectors", MAX_VECTOR_CHARS),
        "seeds": _typed_value(values, "seeds", dict, {}),
        "model": parse_string(values, "model", MAX_DIGEST_CHARS),
        "threshold": parse_threshold(values.get("threshold")),
        "skim_threshold": _parse_skim_threshold(values.get("skim_threshold")),
        "promise": _typed_value(values, "promise", dict, None),
        "made": _typed_value(values, "made", dict, {}),
        "before": tuple(before),
    }


def _parse_skim_threshold(value: object) -> float | None:
    """A score; that of every post is -1."""
    if value is None:
        return None
    if isinstance(value, int | float) and not isinstance(value, bool) and -1 <= value <= 1:
        return float(value)
    raise InputError(f"skim_threshold: {json_type(value)}, expected a number from -1 to 1")


def _typed_value(values: dict[str, Any], key: str, kind: type, absent: Any) -> Any:
    value = values.get(key)
    if value is None:
        return absent
    if not isinstance(value, kind):
        kind_name = "an array" if kind is list else "an object"
        raise InputError(f"{key}: {json_type(value)}, expected {kind_name}")
    return value
