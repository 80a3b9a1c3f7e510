"""Dead letters for the page: counts by reason, and the newest ones without their bytes."""

from collections import Counter, OrderedDict, deque
from collections.abc import Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

from encoder.errors import InputError
from newsift.operations.dead_letters import DeadLetter, parse_letter, read_message
from worker.config import Config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.posts.outcome import Reason
from worker.text import escape_invisible

MAX_NEWEST = 200
MAX_READ_LETTERS = 50_000
MAX_REASONS = 100
RETRYABLE_REASONS = {reason.value for reason in Reason}
MAX_FIELD_CHARS = 500
MAX_SHOWN_BYTES = 4096
MAX_HEADERS = 50


class DeadLetterList:
    """The newest dead letters, in bounded memory. Thread-safe."""

    def __init__(self, config: Config) -> None:
        self._config, self._lock = config, Lock()
        self._clear()

    def begin(self, cluster: TopicReader) -> Offsets:
        topic = self._config.topics.rejected
        first, end = cluster.beginnings(topic), cluster.ends(topic)
        most = MAX_READ_LETTERS // len(end)
        start = {part: max(first[part], end[part] - most) for part in end}
        with self._lock:
            self._clear()
            self._older = sum(start[part] - first[part] for part in end)
        return start

    def take(self, batch: Sequence[StoredMessage]) -> None:
        """A letter that was delivered twice counts once."""
        with self._lock:
            for letter in map(parse_letter, batch):
                self._take(letter)

    def note_retry(self, letter: str) -> None:
        with self._lock:
            self._retried_ids[letter] = None
            if len(self._retried_ids) > MAX_READ_LETTERS:
                self._retried_ids.popitem(last=False)

    def summary(self) -> dict[str, Any]:
        with self._lock:
            rows = sorted(self._newest, key=lambda row: str(row["kafka_time"]), reverse=True)
            return {
                "reasons": dict(self._reasons.most_common()),
                "retryable": [name for name in self._reasons if name in RETRYABLE_REASONS],
                "all": self._reasons.total(),
                "older": self._older,
                "newest": [row | {"retried": row["id"] in self._retried_ids} for row in rows],
            }

    def _take(self, letter: DeadLetter) -> None:
        digest = blake2b(repr(letter.identity).encode(), digest_size=12).digest()
        if digest in self._letter_digests:
            return
        self._letter_digests[digest] = None
        if len(self._letter_digests) > MAX_READ_LETTERS:
            self._letter_digests.popitem(last=False)
        row = _row(letter)
        reason = str(row["reason"])
        if reason not in self._reasons and len(self._reasons) >= MAX_REASONS:
            reason = "others"
        self._reasons[reason] += 1
        self._newest.append(row)

    def _clear(self) -> None:
        self._reasons = Counter[str]()
        self._newest = deque[dict[str, Any]](maxlen=MAX_NEWEST)
        self._letter_digests = OrderedDict[bytes, None]()
        self._retried_ids = OrderedDict[str, None]()
        self._older = 0


def read_letter(
    cluster: TopicReader, config: Config, partition: int, offset: int
) -> dict[str, Any]:
    """A letter and the first bytes of it, as escaped text."""
    topic = config.topics.rejected
    if message := read_message(cluster, topic, partition, offset):
        return _row(parse_letter(message)) | _content_fields(message)
    raise InputError(f"dead letter: {topic} holds none at {partition}-{offset} any more")


def escape_bytes(raw: bytes | None) -> str | None:
    if raw is None:
        return None
    text = raw[:MAX_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return "\n".join(escape_invisible(line) for line in text.split("\n"))


def _content_fields(message: StoredMessage) -> dict[str, Any]:
    value = message.value
    return {
        "key": escape_bytes(message.key),
        "text": escape_bytes(value),
        "headers": [
            [
                escape_invisible(name)[:MAX_FIELD_CHARS],
                escape_bytes((content or b"")[:MAX_FIELD_CHARS]),
            ]
            for name, content in message.headers[:MAX_HEADERS]
        ],
        "cut": len(value or b"") > MAX_SHOWN_BYTES,
    }


def _row(letter: DeadLetter) -> dict[str, Any]:
    return (
        letter.row()
        | {
            "id": letter.id[:MAX_FIELD_CHARS],  # not escaped: a retry names it
            "reason": escape_invisible(letter.reason)[:MAX_FIELD_CHARS] or "none is named",
            "detail": escape_invisible(letter.detail)[:MAX_FIELD_CHARS],
            "partition": letter.message.partition,
            "offset": letter.message.offset,
            "obstacle": letter.obstacle,
        }
    )
