"""The records that the worker writes: matches and dead letters, exactly as in the contract."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, NamedTuple, Protocol
from unicodedata import category

import msgspec
import numpy as np

from worker.posts.compare import PARTS, compared_text
from worker.posts.outcome import INSTANCE_HEADER, MAX_INSTANCE_BYTES, Unreadable
from worker.posts.read import Post, Reason
from worker.seeds.profile import SeedOrProfile

Headers = list[tuple[str, bytes]]

MATCH_SCHEMA = "newsift.match/1"
REJECTED_SCHEMA = "newsift.rejected/1"
MAX_DETAIL_CHARS = 500
INPUT_PREFIX = "input."  # A dead letter has the input's headers under this prefix.
RETRY_HEADERS = ("attempt", "retry.of")
MAX_INPUT_HEADER_BYTES = 2**14
HEADER_OVERHEAD_BYTES = 16  # It bounds the number of headers too.
MAX_WHY_TOKENS = 8
MIN_WHY_SHARE = 0.05  # of the largest contribution; smaller ones explain nothing
REASONS_WITHOUT_VALUE = (Reason.RECORD_TOO_LARGE, Reason.POST_BYTES)

encode_json = msgspec.json.Encoder().encode


class Message(Protocol):
    """aiokafka's ConsumerRecord is one."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...

    @property
    def timestamp(self) -> int | None:
        """Milliseconds; None or -1 where Kafka has none."""

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]: ...


class StoryKey(NamedTuple):
    """The best match of a record, and its events: grouping needs no more."""

    match_id: str
    events: frozenset[str]


class StoryGroup(NamedTuple):
    """Named by its first match; `new` if this match is the first."""

    match_id: str
    new: bool


class Record(msgspec.Struct, frozen=True, gc=False):
    """A match or a dead letter, before it has a topic."""

    kind: Literal["match", "rejected"]
    key: bytes | None
    value: bytes | None
    headers: Headers
    source: int  # which message of the batch it comes from
    timestamp: int | None = None  # milliseconds; without one that of its sending
    story_key: StoryKey | None = None  # of a match


class Match(msgspec.Struct, frozen=True, gc=False):
    match_id: str
    seed_id: str
    seed_version: str
    event: str
    title: str
    score: float
    threshold: float
    why: list[tuple[str, float]]
    link: bool | msgspec.UnsetType = msgspec.UNSET  # true where the post links to the seed's page
    skimmed: bool | msgspec.UnsetType = msgspec.UNSET  # true where no post is read


class PostPosition(msgspec.Struct, frozen=True, gc=False):
    topic: str
    partition: int
    offset: int
    timestamp: int


class MatchRecord(msgspec.Struct, frozen=True, gc=False):
    post: Post
    matches: list[Match]
    matched: int
    seed_set: str
    model: str
    source: PostPosition
    processed_at: str
    group: str | msgspec.UnsetType = msgspec.UNSET  # a worker's hints, in no record of a filter
    new: bool | msgspec.UnsetType = msgspec.UNSET
    deleted: bool | msgspec.UnsetType = msgspec.UNSET  # true where it is shown without its content

    @property
    def has_link(self) -> bool:
        """Whether the post links to a seed's page: it is drawn for nothing, and teaches nothing."""
        return any(match.link is True for match in self.matches)


class RecordRules(NamedTuple):
    """What match records say."""

    most: int = 10  # matches of a post that are listed
    why: bool = True  # whether each names the words that carry it
    skimmed: bool = False  # whether no post is read
    compare: tuple[str, ...] = PARTS  # of a post, which the match's id depends on


def match_id(post: Post, seed: SeedOrProfile, model: str, compare: Sequence[str] = PARTS) -> str:
    """32 hex digits, the same on every worker and at every delivery."""
    text = compared_text(post, compare)
    identity = [post.platform, post.id, text, seed.id, seed.version, model]
    return sha256(encode_json(identity)).hexdigest()[:32]


class ScoredPair(NamedTuple):
    """A post and a seed that it matches."""

    post: Post
    seed: SeedOrProfile
    score: np.float32
    threshold: np.float32
    by_link: bool = False


def to_match(
    pair: ScoredPair, model: str, why: Sequence[tuple[str, float]], rules: RecordRules
) -> Match:
    post, seed = pair.post, pair.seed
    return Match(
        match_id(post, seed, model, rules.compare), seed.id, seed.version, seed.event, seed.title,
        shortest_float(pair.score), shortest_float(pair.threshold), list(why),
        pair.by_link or msgspec.UNSET, rules.skimmed or msgspec.UNSET,
    )  # fmt: skip


class Origin(NamedTuple):
    """What made a match."""

    seed_set: str
    model: str
    processed_at: str


def to_match_record(
    index: int, message: Message, post: Post, matches: Sequence[Match], matched: int, origin: Origin
) -> Record:
    """`matched` counts all seeds; `matches` may list fewer."""
    timestamp_ms = -1 if message.timestamp is None else message.timestamp
    source = PostPosition(message.topic, message.partition, message.offset, timestamp_ms)
    value = MatchRecord(
        post, list(matches), matched, origin.seed_set, origin.model, source, origin.processed_at
    )
    headers = [("schema", MATCH_SCHEMA.encode())]
    if instance := instance_of(message):
        headers.append((INSTANCE_HEADER, instance))
    story_key = StoryKey(matches[0].match_id, frozenset(match.event for match in matches))
    key = post.id.encode()
    return Record("match", key, encode_json(value), headers, index, story_key=story_key)


def instance_of(message: Message) -> bytes:
    """The instance that gave the post's id, by the header of its message; empty if unknown."""
    named = (value for name, value in message.headers or () if name == INSTANCE_HEADER)
    instance = next(named, None) or b""
    return instance if len(instance) <= MAX_INSTANCE_BYTES else b""


def with_group(record: Record, group: StoryGroup) -> Record:
    """Adds two keys before the last brace."""
    hints = b'"group":"%s","new":%s}' % (
        group.match_id.encode(),
        b"true" if group.new else b"false",
    )
    value = (record.value or b"{}")[:-1] + b"," + hints
    return msgspec.structs.replace(record, value=value)


def to_dead_letter(index: int, message: Message, reason: Reason, detail: str) -> Record:
    """The message unchanged; without its value if that is too large."""
    first = message.first if isinstance(message, Unreadable) else message.offset
    source = f"{message.topic}-{message.partition}-{first}"
    copied_headers, left_out = input_headers(message)
    if left_out:
        note = f" ({left_out} of the input's headers are left out)"
        detail = detail[: MAX_DETAIL_CHARS - len(note)] + note
    headers = [
        ("reason", reason.value.encode()),
        ("detail", detail[:MAX_DETAIL_CHARS].encode("utf-8", "backslashreplace")),
        ("source", source.encode()),
        ("attempt", str(attempt_number(message)).encode()),
        ("schema", REJECTED_SCHEMA.encode()),
        *digest_headers(message.value),
    ]
    if isinstance(message, Unreadable):
        headers.append(("offsets", message.offsets.encode()))
    # None or -1: no time.
    timestamp_ms = message.timestamp if (message.timestamp or 0) > 0 else None
    if timestamp_ms is not None:
        headers.append(("timestamp", str(timestamp_ms).encode()))
    value = None if reason in REASONS_WITHOUT_VALUE else message.value
    return Record("rejected", message.key, value, [*headers, *copied_headers], index, timestamp_ms)


def digest_headers(value: bytes | None) -> Headers:
    """Length and digest of the input, also if the letter does not carry its bytes."""
    if value is None:
        return []
    return [("bytes", str(len(value)).encode()), ("sha256", sha256(value).hexdigest().encode())]


def input_headers(message: Message) -> tuple[Headers, int]:
    """Headers of the input under a prefix, and how many are left out for their size."""
    headers: Headers = []
    room, left_out = MAX_INPUT_HEADER_BYTES, 0
    for name, value in message.headers or ():
        if name in RETRY_HEADERS:
            continue
        size = len(name.encode()) + len(value or b"") + HEADER_OVERHEAD_BYTES
        if size > room:
            left_out += 1
            continue
        room -= size
        headers.append((INPUT_PREFIX + name, value))
    return headers, left_out


def without_input_headers(headers: Sequence[tuple[str, bytes]]) -> Headers:
    return [(name, value) for name, value in headers if not name.startswith(INPUT_PREFIX)]


def attempt_number(message: Message) -> int:
    """1, or the number that a retry wrote into the header."""
    values = [value for name, value in message.headers or () if name == "attempt"]
    digits = values[-1] if values and values[-1] is not None else b""
    return max(1, int(digits)) if digits.isdigit() and len(digits) < 4 else 1


def select_why_tokens(parts: Sequence[tuple[str, float]]) -> list[tuple[str, float]]:
    """The words that contribute most to a score, largest first, without punctuation."""
    tokens: list[tuple[str, float]] = []
    least = 0.0
    sizes = [-abs(part) for _, part in parts]
    for index in sorted(range(len(parts)), key=sizes.__getitem__):
        word, part = parts[index]
        rounded_part = round(part, 6)
        if len(tokens) == MAX_WHY_TOKENS or not rounded_part or abs(rounded_part) < least:
            break
        if not _is_punctuation(word):
            tokens.append((word, rounded_part))
            least = MIN_WHY_SHARE * abs(tokens[0][1])
    return tokens


def _is_punctuation(word: str) -> bool:
    return not word.isalnum() and all(category(character)[0] == "P" for character in word)


def shortest_float(number: np.float32) -> float:
    """0.3, not 0.30000001."""
    return float(str(np.float32(number)))
