"""Dead letters: read from their topic, and published to the posts topic again."""

import fcntl
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import Any

from encoder.errors import InputError
from encoder.support.files import cache_root
from newsift.operations.messages import notify
from worker.config import Config
from worker.kafka.reading import StoredMessage, TopicReader, connected
from worker.kafka.sending import Headers, sending
from worker.match.records import INPUT_PREFIX, RETRY_HEADERS, attempt_number
from worker.posts.outcome import Reason
from worker.posts.times import HOUR_MS, rfc3339

MAX_ATTEMPTS = 3
ATTEMPT, RETRY_OF = RETRY_HEADERS
CLOCK_SLACK_MS = HOUR_MS  # The clocks of the worker and of a sender may differ by this.
GRACE_S = 5.0

ShowLetter = Callable[["DeadLetter"], object]
RetryKey = tuple[str, str]  # the id of a letter and the digest of its bytes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    id: str
    reason: str
    detail: str
    attempt: int
    input_time: str  # Kafka's time of the input, as the worker noted it
    message: StoredMessage
    size: int | None  # bytes of the input, as the worker noted them
    sha256: str  # of the input, likewise; "" where it was null

    @property
    def identity(self) -> tuple[str, int, str]:
        """The same for a message that is delivered twice.

        Another attempt has another source; a message at the same place of a recreated topic has
        another time.
        """
        return self.id, self.attempt, self.input_time

    @property
    def retry_key(self) -> RetryKey:
        """It contains the digest, so that other bytes never count as this letter's retry."""
        value = self.message.value
        return self.id, self.sha256 if value is None else sha256(value).hexdigest()

    @property
    def obstacle(self) -> str | None:
        """Why it cannot be retried, or None."""
        if self.reason == Reason.BAD_BATCH:
            return "there is nothing to retry: it stands for a record batch that cannot be read"
        if self.message.value is None and not self.sha256:
            return "it has no bytes: they were null"
        if self.attempt >= MAX_ATTEMPTS:
            return f"it has had {MAX_ATTEMPTS} attempts"
        return None

    @property
    def retry_headers(self) -> Headers:
        """The input's headers, the number of the next attempt and the letter's id."""
        headers = [
            (name.removeprefix(INPUT_PREFIX), value or b"")  # kafka-python sends no null
            for name, value in self.message.headers
            if name.startswith(INPUT_PREFIX)
            and name.removeprefix(INPUT_PREFIX) not in RETRY_HEADERS
        ]
        return [*headers, (ATTEMPT, str(self.attempt + 1).encode()), (RETRY_OF, self.id.encode())]

    def row(self) -> dict[str, Any]:
        value = self.message.value
        return {
            "id": self.id,
            "reason": self.reason,
            "detail": self.detail,
            "attempt": self.attempt,
            "kafka_time": rfc3339(max(self.message.timestamp, 0)),
            "bytes": self.size if value is None else len(value),
        }


def parse_letter(message: StoredMessage) -> DeadLetter:
    """The id is the input's position, or the letter's own if the worker's headers are missing."""
    headers = _decode_headers(message.headers)
    place = f"{message.topic}-{message.partition}-{message.offset}"
    size = headers.get("bytes", "")
    return DeadLetter(
        id=headers.get("source") or place,
        reason=headers.get("reason", ""),
        detail=headers.get("detail", ""),
        attempt=attempt_number(message),
        input_time=headers.get("timestamp", ""),
        message=message,
        size=int(size) if size.isdecimal() and len(size) < 12 else None,
        sha256=headers.get("sha256", ""),
    )


def _decode_headers(headers: Headers) -> dict[str, str]:
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers}


def no_such_letter(name: str) -> InputError:
    return InputError(f"dead letter {name!r}: there is none; see newsift dead-letters list")


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """Selects letters by id, or else by reason, or else all."""

    names: frozenset[str] = frozenset()
    reason: str | None = None
    start: int | None = None  # milliseconds

    def read(self, cluster: TopicReader, config: Config) -> Iterator[DeadLetter]:
        """Each letter once."""
        topic, since = config.topics.rejected, self.start
        ids: set[tuple[str, int, str]] = set()
        start = None if since is None else cluster.offsets_at(topic, since)
        for letter in map(parse_letter, chain.from_iterable(cluster.read(topic, start))):
            if letter.identity in ids:
                continue
            ids.add(letter.identity)
            if letter.id in self.names if self.names else self.reason in (None, letter.reason):
                yield letter


def retry_letters(config: Config, selection: LetterSelection, show: ShowLetter) -> None:
    """`show` is called for each letter that the broker has."""
    with retry_lock(config), connected(config) as cluster, connected(config) as posts:
        cluster.partitions(config.topics.posts)
        keys = _retried_keys(cluster, config, selection.read(cluster, config))

        def payload(letter: DeadLetter) -> bytes | str:
            """The bytes to send, or why there are none."""
            if letter.obstacle:
                return letter.obstacle
            if letter.retry_key in keys:
                return "it was sent again before"
            value = letter.message.value
            value = _read_original(posts, config, letter) if value is None else value
            return "the original is gone" if value is None else value

        if selection.names:
            payloads = {letter.id: payload(letter) for letter in selection.read(cluster, config)}
            for name in sorted(selection.names):
                if name not in payloads:
                    raise no_such_letter(name)
                if isinstance(obstacle := payloads[name], str):
                    raise InputError(f"dead letter {name!r}: cannot be retried: {obstacle}")
        _resend(
            config, ((letter, payload(letter)) for letter in selection.read(cluster, config)), show
        )


def _resend(
    config: Config, letters: Iterable[tuple[DeadLetter, bytes | str]], show: ShowLetter
) -> None:
    in_flight, sent, not_sent = deque[DeadLetter](), 0, Counter[str]()  # not sent by the reason

    def report(total: int) -> None:
        nonlocal sent
        for _ in range(total - sent):
            show(in_flight.popleft())
            sent += 1

    with sending(config) as outbox:
        try:
            for letter, value in letters:
                if isinstance(value, str):
                    not_sent[value] += 1
                    continue
                in_flight.append(letter)
                outbox.send(config.topics.posts, value, letter.message.key, letter.retry_headers)
                report(outbox.delivered)
            outbox.settle()
        finally:
            report(outbox.drain(GRACE_S))
            # The reasons are sentences, so each count precedes its reason.
            unsent = [f"{count:,} ({reason})" for reason, count in not_sent.most_common()]
            others = f"; not retried: {', '.join(unsent)}" if unsent else ""
            notify(f"{sent:,} sent again{others}")


def _retried_keys(
    cluster: TopicReader, config: Config, letters: Iterable[DeadLetter]
) -> set[RetryKey]:
    """Keys of the posts that were retried since the oldest of these letters."""
    oldest = min((max(letter.message.timestamp, 0) for letter in letters), default=None)
    if oldest is None:
        return set()
    topic = config.topics.posts
    return {
        (letter_id, sha256(message.value or b"").hexdigest())
        for batch in cluster.read(topic, cluster.offsets_at(topic, oldest - CLOCK_SLACK_MS))
        for message in batch
        if (letter_id := _decode_headers(message.headers).get(RETRY_OF)) is not None
    }


def _read_original(cluster: TopicReader, config: Config, letter: DeadLetter) -> bytes | None:
    """None if the posts topic no longer holds the original."""
    topic = config.topics.posts
    place = letter.id.removeprefix(f"{topic}-").split("-")
    if len(place) != 2 or not all(part.isdecimal() and len(part) < 20 for part in place):
        return None  # also where the posts were read from another topic
    (partition, offset), ends = map(int, place), cluster.ends(topic)
    if offset >= ends.get(partition, 0):
        return None
    batches = cluster.read(topic, ends | {partition: offset}, ends | {partition: offset + 1})
    found = (m.value for m in chain.from_iterable(batches) if m.offset == offset)
    value = next(found, None)
    return value if value is not None and sha256(value).hexdigest() == letter.sha256 else None


@contextmanager
def retry_lock(config: Config) -> Iterator[None]:
    """One retry of a user on a topic at a time; without a cache folder there is no lock."""
    path, lock = cache_root() / "retry.lock", None
    place = zlib.crc32(f"{config.kafka.bootstrap_servers} {config.topics.posts}".encode())
    with suppress(OSError):
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = path.open("ab")
    if lock is None:
        yield
        return
    with lock:
        try:
            fcntl.lockf(lock, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
        except BlockingIOError:
            notify("another retry is running; waiting until it ends")
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, place)
        yield
