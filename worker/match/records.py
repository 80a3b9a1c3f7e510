"""What the worker writes: match records and dead letters, to the byte as the contract has them."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol

import msgspec
import numpy as np

from worker.posts.read import Post, Reason
from worker.posts.unreadable import Unreadable
from worker.seeds.profile import Compared

Headers = list[tuple[str, bytes]]

MATCH_SCHEMA = "newsift.match/1"
REJECTED_SCHEMA = "newsift.rejected/1"
MAX_DETAIL = 500  # characters
INPUT = "input."  # before the names of the headers that the input itself had
OURS = ("attempt", "retry.of")  # of a retry, which the dead letter says in its own
HEADER_BYTES = 2**14  # that the headers of the input may take in a dead letter
HEADER_COST = 16  # bytes of a header besides what it holds, so that their number has a bound too
WHY_TOKENS = 8
VALUELESS = (Reason.RECORD_TOO_LARGE, Reason.POST_BYTES)

encode_json = msgspec.json.Encoder().encode


class Message(Protocol):
    """What came out of a topic; aiokafka's ConsumerRecord is one."""

    @property
    def topic(self) -> str:
        """The topic it came from."""

    @property
    def partition(self) -> int:
        """The partition there."""

    @property
    def offset(self) -> int:
        """Its place in the partition."""

    @property
    def timestamp(self) -> int | None:
        """Kafka's milliseconds; None or -1 where it has none."""

    @property
    def key(self) -> bytes | None:
        """Its key."""

    @property
    def value(self) -> bytes | None:
        """Its value."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers."""


class Telling(NamedTuple):
    """What a match record tells: its best match, and the events that are named in it."""

    match_id: str
    events: frozenset[str]


class Story(NamedTuple):
    """The first match that says the same, and whether this is it."""

    match_id: str
    new: bool


@dataclass(frozen=True, slots=True)
class Record:
    """Something to send: a match, or a dead letter."""

    kind: Literal["match", "rejected"]
    key: bytes | None
    value: bytes | None
    headers: Headers
    source: int  # which message of the batch it comes from
    timestamp: int | None = None  # milliseconds; without one that of its sending
    telling: Telling | None = None  # of a match


class Match(msgspec.Struct, frozen=True):
    """One seed that a post matches, as a match record has it."""

    match_id: str
    seed_id: str
    seed_version: str
    event: str
    title: str
    score: float
    threshold: float
    why: list[tuple[str, float]]


class Source(msgspec.Struct, frozen=True):
    """Where in Kafka a post came from."""

    topic: str
    partition: int
    offset: int
    timestamp: int


class MatchRecord(msgspec.Struct, frozen=True):
    """The value of a record in the topic of matches."""

    post: Post
    matches: list[Match]
    matched: int
    seed_set: str
    model: str
    source: Source
    processed_at: str
    group: str | msgspec.UnsetType = msgspec.UNSET  # a worker's hints, in no record of a filter
    new: bool | msgspec.UnsetType = msgspec.UNSET


def match_id(post: Post, seed: Compared, model: str) -> str:
    """The 32 hex digits that name a match, on every worker and however often it is delivered."""
    named = [post.platform, post.id, post.text, seed.id, seed.version, model]
    return sha256(encode_json(named)).hexdigest()[:32]


def to_match(
    post: Post,
    seed: Compared,
    model: str,
    score: np.float32,
    threshold: np.float32,
    why: Sequence[tuple[str, float]],
) -> Match:
    """A post and a seed that it matches."""
    name = match_id(post, seed, model)
    pair = (shortest(score), shortest(threshold))
    return Match(name, seed.id, seed.version, seed.event, seed.title, *pair, list(why))


def to_match_record(
    index: int,
    message: Message,
    post: Post,
    matches: Sequence[Match],
    matched: int,
    seed_set: str,
    model: str,
    processed_at: str,
) -> Record:
    """The record of a post that matches `matched` seeds, with those that are named."""
    written = -1 if message.timestamp is None else message.timestamp
    source = Source(message.topic, message.partition, message.offset, written)
    value = MatchRecord(post, list(matches), matched, seed_set, model, source, processed_at)
    headers = [("schema", MATCH_SCHEMA.encode())]
    telling = Telling(matches[0].match_id, frozenset(match.event for match in matches))
    key = post.id.encode()
    return Record("match", key, encode_json(value), headers, index, telling=telling)


def with_group(record: Record, story: Story) -> Record:
    """A match record with its group: two keys more before its last brace."""
    hints = b'"group":"%s","new":%s}' % (
        story.match_id.encode(),
        b"true" if story.new else b"false",
    )
    value = (record.value or b"{}")[:-1] + b"," + hints
    return Record(
        record.kind, record.key, value, record.headers, record.source, record.timestamp,
        record.telling,
    )  # fmt: skip


def to_dead_letter(index: int, message: Message, reason: Reason, detail: str) -> Record:
    """A message that cannot be worked on, untouched; without its value if that is too large."""
    first = message.first if isinstance(message, Unreadable) else message.offset
    source = f"{message.topic}-{message.partition}-{first}"
    own, left_out = input_headers(message)
    if left_out:
        more = f" ({left_out} of the input's headers are left out)"
        detail = detail[: MAX_DETAIL - len(more)] + more
    headers = [
        ("reason", reason.value.encode()),
        ("detail", detail[:MAX_DETAIL].encode("utf-8", "backslashreplace")),
        ("source", source.encode()),
        ("attempt", str(attempt(message)).encode()),
        ("schema", REJECTED_SCHEMA.encode()),
        *digest_headers(message.value),
    ]
    if isinstance(message, Unreadable):
        headers.append(("offsets", message.offsets.encode()))
    written = message.timestamp if (message.timestamp or 0) > 0 else None  # None or -1: no time
    if written is not None:
        headers.append(("timestamp", str(written).encode()))
    value = None if reason in VALUELESS else message.value
    return Record("rejected", message.key, value, [*headers, *own], index, written)


def digest_headers(value: bytes | None) -> Headers:
    """What names the bytes of an input, whether or not its dead letter carries them."""
    if value is None:
        return []
    return [("bytes", str(len(value)).encode()), ("sha256", sha256(value).hexdigest().encode())]


def input_headers(message: Message) -> tuple[Headers, int]:
    """The input's own headers by another name, and how many are left out lest they be too much."""
    kept: Headers = []
    room, left_out = HEADER_BYTES, 0
    for name, value in message.headers or ():
        if name in OURS:
            continue
        size = len(name.encode()) + len(value or b"") + HEADER_COST
        if size > room:
            left_out += 1
            continue
        room -= size
        kept.append((INPUT + name, value))
    return kept, left_out


def without_input_headers(headers: Sequence[tuple[str, bytes]]) -> Headers:
    """The headers that the worker itself has given to a dead letter."""
    return [(name, value) for name, value in headers if not name.startswith(INPUT)]


def attempt(message: Message) -> int:
    """Which attempt at this message it is: 1, or what a retry wrote into its header."""
    given = [value for name, value in message.headers or () if name == "attempt"]
    digits = given[-1] if given and given[-1] is not None else b""
    return max(1, int(digits)) if digits.isdigit() and len(digits) < 4 else 1


def why_tokens(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The few words that made most of a score, by the size of their part."""
    told = [(word, round(part, 6)) for word, part in parts if word]
    told = [(word, part) for word, part in told if part]
    return sorted(told, key=lambda pair: -abs(pair[1]))[:WHY_TOKENS]


def shortest(number: np.float32) -> float:
    """The float with the fewest digits that is this float32 and no other: 0.3, not 0.30000001."""
    return float(str(np.float32(number)))
