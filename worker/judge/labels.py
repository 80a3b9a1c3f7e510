"""Labels: a record of the labels' topic → what somebody says of a post, and back."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, UnsetType

from encoder.errors import InputError, one_line
from encoder.support.letters import most_marks
from worker.config import DEFAULT_LIMITS, Limits
from worker.posts.checks import refusal
from worker.posts.outcome import Post
from worker.seeds.values import EVENT_BYTES, milliseconds_in

SCHEMA = "newsift.label/1"
KEY_BYTES = 2**12
ROOM = 2**28  # bytes that all labels may take together: some 400,000 on posts as people write them
OVERHEAD = 256  # of them for a record beside its own
MOST_PAIRS = 10_000  # of event and person, between which the room is shared
PLATFORMS = ("x", "bluesky", "mastodon", "plain")
Verdict = Literal["on", "off", "unsure"]
Draw = Literal["certify", "learn", "given"]
Share = Annotated[float, msgspec.Meta(gt=0, le=1)]
Cosine = Annotated[float, msgspec.Meta(ge=-1.001, le=1.001)]  # sums of float32 reach 1.0000001
Nonce = Annotated[str, msgspec.Meta(max_length=64)]
PostId = tuple[str, str]  # the platform and the id that it gave
Pair = tuple[str, str]  # an event, and who judges its posts


class QueueName(msgspec.Struct, frozen=True):
    """The frozen queue that drew a post at random."""

    nonce: Nonce  # keys its order
    until: str  # RFC 3339: when the newest of its matches was processed


class Label(msgspec.Struct, frozen=True):
    """What somebody says of a post: whether it is on the event, and how it came to be asked."""

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

    @property
    def post_id(self) -> PostId:
        """The post that it is about."""
        return self.post.platform, self.post.id

    @property
    def key(self) -> bytes:
        """The key of its record: a later label of the same person on the same post replaces it."""
        return ENCODER.encode([self.event, self.post.platform, self.post.id, self.by])

    @property
    def value(self) -> bytes:
        """The value of its record."""
        return ENCODER.encode(self)


@dataclass(frozen=True, slots=True, order=True)
class RefusedLabel:
    """A label that cannot be used, and why: its post counts as not labelled."""

    key: str
    reason: str


@dataclass(slots=True)
class PairLabels:
    """The labels of one event by one person, in the order they came, each with its size."""

    latest: dict[bytes | None, tuple[Label | RefusedLabel, int]] = field(default_factory=dict)
    size: int = 0


ENCODER = msgspec.json.Encoder()
DECODER = msgspec.json.Decoder(Label)
KEY_DECODER = msgspec.json.Decoder(list[str])


def read_label(
    key: bytes | None, value: bytes | None, limits: Limits = DEFAULT_LIMITS
) -> Label | RefusedLabel | None:
    """The label in a record, or why it is refused; None where the record takes it back."""
    if value is None:
        return None
    try:
        label = label_in(value, limits)
        if key != label.key:  # to the byte: else one person has two records for a post
            raise InputError(
                f"key: is not {one_line(label.key.decode(), 200)}, as the value has it"
            )
        return label
    except InputError as error:
        shown = (key or b"")[:KEY_BYTES].decode("utf-8", "backslashreplace")
        return RefusedLabel(shown, one_line(str(error)))


def label_in(value: bytes, limits: Limits = DEFAULT_LIMITS) -> Label:
    """The label that a value holds, or a refusal."""
    label = _decoded(value, limits)
    _check(label, limits)
    return label


class LabelBook:
    """The latest record of every key: all that is known of people's labels.

    Pairs of event and person share the room fairly: where it is full, a label takes the place of
    the newest of the pair that holds most, unless its own pair would then hold more.
    """

    def __init__(self, limits: Limits = DEFAULT_LIMITS, room: int = ROOM) -> None:
        self._limits, self._room = limits, room
        self._pairs: dict[Pair, PairLabels] = {}
        self._largest: list[tuple[int, Pair]] = []  # a heap of sizes, old ones too, below zero
        self.left_out = 0  # records that there was no room for: whoever may write can fill a topic

    def apply(self, key: bytes | None, value: bytes | None) -> None:
        """Let one record of the labels' topic take effect, if there is room."""
        found = read_label(key, value, self._limits)
        pair = pair_of(key)
        if key is not None and len(key) > KEY_BYTES:
            key = hashlib.sha512(key).digest()
        self._remove(pair, key)
        if found is None:
            return
        size = OVERHEAD + (len(value or b"") if isinstance(found, Label) else len(found.key))
        if not self._makes_room(pair, size):
            self.left_out += 1
            return
        own = self._pairs.setdefault(pair, PairLabels())
        own.latest[key] = found, size
        self._resize(pair, own, size)

    def copied(self) -> "LabelBook":
        """A book of the same labels, which goes its own way from now on."""
        book = LabelBook(self._limits, self._room)
        book._pairs = {
            pair: PairLabels(dict(own.latest), own.size) for pair, own in self._pairs.items()
        }
        book._largest = list(self._largest)
        book.left_out = self.left_out
        return book

    def _makes_room(self, pair: Pair, size: int) -> bool:
        if pair not in self._pairs and len(self._pairs) >= MOST_PAIRS:
            return False
        own = self._pairs[pair].size if pair in self._pairs else 0
        while size > self._room:
            largest = self._largest_pair()
            if largest is None or own + size > self._pairs[largest].size:
                return False
            self._remove(largest, next(reversed(self._pairs[largest].latest)))
            self.left_out += 1
        return True

    def _largest_pair(self) -> Pair | None:
        while self._largest:
            size, pair = self._largest[0]
            if pair in self._pairs and self._pairs[pair].size == -size:
                return pair
            heappop(self._largest)
        return None

    def _remove(self, pair: Pair, key: bytes | None) -> None:
        own = self._pairs.get(pair)
        if own is None or key not in own.latest:
            return
        _, size = own.latest.pop(key)
        self._resize(pair, own, -size)
        if not own.latest:
            del self._pairs[pair]

    def _resize(self, pair: Pair, own: "PairLabels", size: int) -> None:
        own.size += size
        self._room -= size
        heappush(self._largest, (-own.size, pair))
        if len(self._largest) > 2 * len(self._pairs) + 1_000:
            self._largest = [(-each.size, name) for name, each in self._pairs.items()]
            heapify(self._largest)

    def of(self, event: str) -> tuple[Label, ...]:
        """The labels on the posts of an event, in the order of their keys."""
        return self.by_event().get(event, ())

    def by_event(self) -> dict[str, tuple[Label, ...]]:
        """The labels of each event, by its name, in the order of their keys."""
        found: defaultdict[str, list[Label]] = defaultdict(list)
        for label in self._records():
            if isinstance(label, Label):
                found[label.event].append(label)
        by_key = {name: sorted(own, key=lambda label: label.key) for name, own in found.items()}
        return {name: tuple(by_key[name]) for name in sorted(by_key)}

    @property
    def refused(self) -> tuple[RefusedLabel, ...]:
        """The labels that cannot be used."""
        return tuple(sorted(f for f in self._records() if isinstance(f, RefusedLabel)))

    def _records(self) -> Iterator[Label | RefusedLabel]:
        return (found for own in self._pairs.values() for found, _ in own.latest.values())


def pair_of(key: bytes | None) -> Pair:
    """The event and the person that a key names; empty where it names none."""
    if key is not None and len(key) <= KEY_BYTES:
        try:
            names = KEY_DECODER.decode(key)
            if len(names) == 4 and ENCODER.encode(names) == key:
                return names[0], names[3]
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
    return "", ""


def verdicts(labels: Iterable[Label]) -> dict[PostId, bool]:
    """Whether each post is on the event: only where all who judged it say so without a doubt."""
    said: dict[PostId, bool] = defaultdict(lambda: True)
    for label in labels:
        said[label.post_id] &= label.label == "on"
    return dict(said)


def _decoded(value: bytes, limits: Limits) -> Label:
    if len(value) > limits.post_bytes:
        told = f"{len(value)} bytes, {limits.post_bytes} are allowed; shorten the post's text"
        raise InputError(f"limits.post_bytes: {told}")
    if bad := refusal(value, limits):
        raise InputError(bad.detail)
    try:
        return DECODER.decode(value)
    except msgspec.ValidationError as error:
        told, _, where = str(error).partition(" - at `$.")
        raise InputError(f"{where.rstrip('`') or 'value'}: {told}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise InputError(f"value: bad JSON ({error})") from None


def _check(label: Label, limits: Limits) -> None:
    """Refuse what the types of the keys allow and no label may hold."""
    for name, text in (("event", label.event), ("by", label.by)):
        if not 0 < (size := len(text.encode())) <= EVENT_BYTES:
            raise InputError(f"{name}: {size} bytes, expected 1 to {EVENT_BYTES}; give a name")
    if label.post.platform not in PLATFORMS:
        shown = ascii(label.post.platform)[:40]
        raise InputError(f"post.platform: {shown} is none of {', '.join(PLATFORMS)}")
    if not label.post.id or len(label.key) > KEY_BYTES:
        raise InputError(f"post.id: empty, or of more than {KEY_BYTES} bytes; give the platform's")
    milliseconds_in({"at": label.at}, "at")
    if label.queue:
        milliseconds_in({"queue.until": label.queue.until}, "queue.until")
    if label.drawn == "certify" and label.probability is None:
        raise InputError("probability: missing; a random draw says with which one it was made")
    if (marks := most_marks(label.post.text)) > limits.marks:
        told = f"post.text: a letter has {marks} combining marks, {limits.marks} are allowed"
        raise InputError(f"limits.marks: {told}")
