"""Labels, and notes on what counts as on: the records of the labels topic, and its state."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from encoder.errors import InputError, one_line
from encoder.support.letters import marks_beyond
from worker.config.limits import DEFAULT_LIMITS, Limits
from worker.posts.checks import refusal
from worker.posts.outcome import PLATFORMS, Post, PostId
from worker.seeds.record import MAX_EVENT_BYTES, parse_milliseconds
from worker.seeds.reducer import TopicRecord, TopicReducer

SCHEMA, NOTE_SCHEMA = "newsift.label/1", "newsift.note/1"
MAX_KEY_BYTES = 2**12
MAX_NOTE_CHARS = 4_000
Verdict = Literal["on", "off", "unsure"]
Draw = Literal["certify", "learn", "count", "any", "given"]
RANDOM_DRAWS: tuple[Draw, ...] = ("certify", "count", "any")  # of a promise's walk
StratumName = Literal["story", "upper", "lower", "near"]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Cosine = Annotated[float, msgspec.Meta(ge=-1.001, le=1.001)]  # sums of float32 reach 1.0000001
Nonce = Annotated[str, msgspec.Meta(max_length=64)]
Level = Annotated[float, msgspec.Meta(gt=0, lt=1)]
Goal = tuple[Level, Level]  # a precision, and the confidence to prove it with
DEFAULT_GOAL: Goal = (0.8, 0.9)


MAX_POSTS, MAX_TESTS = 2**40, 10**6


class QueueName(msgspec.Struct, frozen=True):
    """The frozen queue that drew a post at random."""

    nonce: Nonce  # keys its order
    until: str  # RFC 3339: when the newest of its matches was processed
    goal: Goal | UnsetType = UNSET  # what it was to prove
    since: str | UnsetType = UNSET  # RFC 3339: when the oldest was
    profile: Annotated[str, msgspec.Meta(max_length=64)] | UnsetType = UNSET  # their version
    # The number of this test among the event's; unset where so few matches can prove nothing.
    test: Annotated[int, msgspec.Meta(ge=1, le=MAX_TESTS)] | UnsetType = UNSET


PostCount = Annotated[int, msgspec.Meta(ge=0, le=MAX_POSTS)]


class FrozenStrata(msgspec.Struct, frozen=True):
    """The frame of a count: all posts that its labels stand for."""

    since: str  # RFC 3339: from when on matches are read
    cut: Cosine  # the least score of the upper stratum
    strata: dict[StratumName, tuple[PostCount, PostCount]]  # posts, and labels that are planned


class CountDraw(msgspec.Struct, frozen=True):
    """What a label stands for in a frame."""

    stratum: StratumName
    posts: Annotated[int, msgspec.Meta(ge=1, le=MAX_POSTS)]  # of a story group, else 1
    timestamp: int  # of the post, by Kafka, in milliseconds
    frame: FrozenStrata


class Label(msgspec.Struct, frozen=True):
    """A person's judgement of a post, and how the post was drawn."""

    label: Verdict
    event: str
    post: Post
    by: str
    at: str  # RFC 3339
    drawn: Draw
    probability: Share | None = None  # of being drawn; None where it is not known
    score: Cosine | None = None
    seed_set: str | None = None
    model: str | None = None
    queue: QueueName | UnsetType = UNSET
    count: CountDraw | UnsetType = UNSET

    @property
    def post_id(self) -> PostId:
        return self.post.post_id

    @property
    def key(self) -> bytes:
        """A later label of the same person on the same post replaces it."""
        return ENCODER.encode([self.event, self.post.platform, self.post.id, self.by])

    @property
    def value(self) -> bytes:
        return ENCODER.encode(self)


class Note(msgspec.Struct, frozen=True):
    """What counts as on an event, as those who judge it have agreed."""

    note: Annotated[str, msgspec.Meta(min_length=1, max_length=MAX_NOTE_CHARS)]
    event: str
    by: str
    at: str  # RFC 3339

    @property
    def key(self) -> bytes:
        return note_key(self.event)

    @property
    def value(self) -> bytes:
        return ENCODER.encode(self)


def note_key(event: str) -> bytes:
    """A later note on the event replaces it."""
    return ENCODER.encode([event])


@dataclass(frozen=True, slots=True, order=True)
class RefusedLabel:
    """A label that cannot be used: its post counts as not labelled."""

    key: str
    reason: str
    value: bytes = field(repr=False)


ENCODER = msgspec.json.Encoder()
DECODER, NOTE_DECODER = msgspec.json.Decoder(Label), msgspec.json.Decoder(Note)
R = TypeVar("R", Label, Note)


def read_label(
    key: bytes | None, value: bytes | None, limits: Limits = DEFAULT_LIMITS
) -> Label | Note | RefusedLabel | None:
    """None where the record deletes a label or a note."""
    if value is None:
        return None
    try:
        is_note = len(names_in_key(key)) == 1
        label = parse_note(value, limits) if is_note else parse_label(value, limits)
        if key != label.key:  # to the byte: else one person has two records for a post
            raise InputError(
                f"key: is not {one_line(label.key.decode(), 200)}, as the value has it"
            )
        return label
    except InputError as error:
        excerpt = (key or b"")[:MAX_KEY_BYTES].decode("utf-8", "backslashreplace")
        return RefusedLabel(excerpt, one_line(str(error)), value)


def parse_label(value: bytes, limits: Limits = DEFAULT_LIMITS) -> Label:
    """Raises InputError for an invalid label."""
    label = _decode(value, DECODER, limits)
    _check(label, limits)
    return label


def parse_note(value: bytes, limits: Limits = DEFAULT_LIMITS) -> Note:
    """Raises InputError for an invalid note."""
    note = _decode(value, NOTE_DECODER, limits)
    check_names(event=note.event, by=note.by)
    parse_milliseconds({"at": note.at}, "at")
    _refuse_marks("note", note.note, limits)
    return note


def _decode(value: bytes, decoder: msgspec.json.Decoder[R], limits: Limits) -> R:
    if len(value) > limits.post_bytes:
        problem = f"{len(value)} bytes, {limits.post_bytes} are allowed; shorten its text"
        raise InputError(f"limits.post_bytes: {problem}")
    if bad := refusal(value, limits):
        raise InputError(bad.detail)
    try:
        return decoder.decode(value)
    except msgspec.ValidationError as error:
        problem, _, where = str(error).partition(" - at `$.")
        raise InputError(f"{where.rstrip('`') or 'value'}: {problem}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"value: bad JSON ({error})") from None


def joint_verdicts(labels: Iterable[Label]) -> dict[PostId, Verdict]:
    """By post: "on" if all judges say on; "off" if one says off and none on; else "unsure".

    An unsure judge keeps a post from counting as right, never from counting as wrong.
    """

    def joint(judgements: set[Verdict]) -> Verdict:
        if judgements == {"on"}:
            return "on"
        return "off" if "off" in judgements and "on" not in judgements else "unsure"

    return {post_id: joint(judgements) for post_id, judgements in _by_post(labels).items()}


def agreed_verdicts(labels: Iterable[Label]) -> dict[PostId, Verdict]:
    """By post: what all its judges say, else "unsure"."""
    by_post = _by_post(labels).items()
    return {name: min(said) if len(said) == 1 else "unsure" for name, said in by_post}


def _by_post(labels: Iterable[Label]) -> dict[PostId, set[Verdict]]:
    verdicts: defaultdict[PostId, set[Verdict]] = defaultdict(set)
    for label in labels:
        verdicts[label.post_id].add(label.label)
    return verdicts


def unanimous_verdicts(labels: Iterable[Label]) -> dict[PostId, bool]:
    """Whether each post is on the event: only where all judges say so."""
    return {post_id: verdict == "on" for post_id, verdict in joint_verdicts(labels).items()}


def check_names(**names: str) -> None:
    for key, text in names.items():
        if not 0 < (size := len(text.encode("utf-8", "surrogatepass"))) <= MAX_EVENT_BYTES:
            raise InputError(f"{key}: {size} bytes; give a name of 1 to {MAX_EVENT_BYTES}")


def _check(label: Label, limits: Limits) -> None:
    """The rules beyond the types."""
    check_names(event=label.event, by=label.by)
    if label.post.platform not in PLATFORMS:
        excerpt = ascii(label.post.platform)[:40]
        raise InputError(f"post.platform: {excerpt} is none of {', '.join(PLATFORMS)}")
    if not label.post.id or len(label.key) > MAX_KEY_BYTES:
        raise InputError(
            f"post.id: empty, or of more than {MAX_KEY_BYTES} bytes; give the platform's"
        )
    parse_milliseconds({"at": label.at}, "at")
    if label.queue:
        parse_milliseconds({"queue.until": label.queue.until}, "queue.until")
        if label.queue.since:
            parse_milliseconds({"queue.since": label.queue.since}, "queue.since")
    if label.count:
        since = {"count.frame.since": label.count.frame.since}
        parse_milliseconds(since, "count.frame.since")
        if label.count.stratum not in (strata := label.count.frame.strata):
            raise InputError(
                f"count.frame: has no stratum {label.count.stratum!r}; name all strata"
            )
        if any(labels > posts for posts, labels in strata.values()):
            raise InputError(
                "count.frame: more labels than posts in a stratum; give posts, then labels"
            )
    if label.drawn in RANDOM_DRAWS and label.probability is None:
        raise InputError("probability: missing; a random draw says with which one it was made")
    _refuse_marks("post.text", label.post.text, limits)


def _refuse_marks(key: str, text: str, limits: Limits) -> None:
    if marks := marks_beyond(text, limits.marks):
        problem = f"{key}: a letter has {marks} combining marks, {limits.marks} are allowed"
        raise InputError(f"limits.marks: {problem}")


MAX_LABELS_BYTES = 2**28  # some 400,000 labels
RECORD_OVERHEAD_BYTES = 256
KEY_DECODER = msgspec.json.Decoder(list[str])
Entries = dict[bytes | None, tuple[Label | Note | RefusedLabel, int]]  # by key, with their sizes


@dataclass(frozen=True)
class LabelState:
    """The labels topic at one moment; immutable."""

    _events: Mapping[str, Entries] = field(repr=False)
    left_out: int = 0  # records without room
    complete: bool = False  # read to the end that the topic had when the reading began
    offsets: Mapping[int, int] = field(default_factory=dict, compare=False)  # next, by partition

    @property
    def offset(self) -> int:
        """The next offset; of several partitions the sum."""
        return sum(self.offsets.values())

    @property
    def version(self) -> str:
        return f"offset {self.offset}"

    def event_labels(self, event: str) -> tuple[Label, ...]:
        """By key."""
        labels = self._labels_of.get(event)
        if labels is None:
            read = (label for label, _ in self._events.get(event, {}).values())
            own = (label for label in read if isinstance(label, Label))
            labels = self._labels_of[event] = tuple(sorted(own, key=lambda label: label.key))
        return labels

    def note(self, event: str) -> Note | None:
        """What counts as on the event."""
        note, _ = self._events.get(event, {}).get(note_key(event), (None, 0))
        return note if isinstance(note, Note) else None

    @cached_property
    def by_event(self) -> Mapping[str, tuple[Label, ...]]:
        """Events by name, their labels by key."""
        by_event = ((name, self.event_labels(name)) for name in sorted(self._events))
        return MappingProxyType({name: labels for name, labels in by_event if labels})

    @property
    def records(self) -> Iterator[tuple[bytes | None, Label | Note | RefusedLabel]]:
        """With their keys; a key that is too long for a label is replaced by its digest."""
        for entries in self._events.values():
            for key, (label, _) in entries.items():
                yield key, label

    @cached_property
    def refused(self) -> tuple[RefusedLabel, ...]:
        return tuple(sorted(label for _, label in self.records if isinstance(label, RefusedLabel)))

    @cached_property
    def _labels_of(self) -> dict[str, tuple[Label, ...]]:
        """A cache of `event_labels`."""
        return {}


class LabelReducer(TopicReducer[LabelState]):
    """Bounded in memory: a record for which there is no room is left out and counted."""

    def __init__(self, limits: Limits = DEFAULT_LIMITS, room: int = MAX_LABELS_BYTES) -> None:
        super().__init__()
        self._limits, self._room = limits, room
        self._events: dict[str, Entries] = {}
        self._is_shared = False  # the table is that of a state that somebody holds
        self._own_events = set[str]()  # events whose entries no state holds

    def _state(self, offsets: Mapping[int, int]) -> LabelState:
        self._is_shared, self._own_events = True, set()
        events = MappingProxyType(self._events)
        return LabelState(events, self._left_out, self._complete, offsets)

    def _put(self, record: TopicRecord) -> None:
        key, value = record.key, record.value
        label = read_label(key, value, self._limits)
        event = event_in_key(key)
        if key is not None and len(key) > MAX_KEY_BYTES:
            key = hashlib.sha512(key).digest()
        if label is None and key not in self._events.get(event, {}):
            return
        entries = self._own_entries(event)
        self._room += entries.pop(key, (None, 0))[1]
        if label is not None:
            size = len(value or b"") + RECORD_OVERHEAD_BYTES
            if isinstance(label, RefusedLabel):
                size += len(label.key)
            if size > self._room:
                self._left_out += 1
            else:
                entries[key] = label, size
                self._room -= size
        if not entries:
            del self._events[event]
            self._own_events.discard(event)

    def _own_entries(self, event: str) -> Entries:
        """The entries of an event, copied if a state shares them."""
        if self._is_shared:
            self._events, self._is_shared = self._events.copy(), False
        if event not in self._own_events:
            self._events[event] = self._events.get(event, {}).copy()
            self._own_events.add(event)
        return self._events[event]


def event_in_key(key: bytes | None) -> str:
    """Empty where a key names none."""
    names = names_in_key(key)
    return names[0] if len(names) in (1, 4) else ""


def names_in_key(key: bytes | None) -> list[str]:
    """Empty where a key is not written as that of a label or a note."""
    if key is not None and len(key) <= MAX_KEY_BYTES:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            names = KEY_DECODER.decode(key)
            if ENCODER.encode(names) == key:
                return names
    return []
