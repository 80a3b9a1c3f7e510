"""Dead letters: read from their topic, and sent to the posts topic again."""

import fcntl
import zlib
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from encoder.errors import InputError
from encoder.support.files import cache_root
from newsift.operations.messages import format_counts, notify
from worker.config import Config
from worker.kafka.reading import StoredMessage, TopicReader, connected
from worker.kafka.sending import Headers, sending
from worker.match.records import INPUT, OURS, attempt
from worker.posts.outcome import Reason
from worker.posts.times import rfc3339

MOST_ATTEMPTS = 3
UNREADABLE = {Reason.BAD_BATCH, Reason.BATCH_BYTES}
ATTEMPT, RETRY_OF = OURS
RetryKey = tuple[str, str]
SLACK_MS = 3_600_000  # by which the clock of whoever sends again may be behind the worker's


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A message that could not be worked on: where it stood, and why."""

    id: str
    reason: str
    detail: str
    attempt: int
    written: str  # Kafka's time of the input, as the worker noted it
    message: StoredMessage
    size: int | None  # bytes of the input, as the worker noted them
    sha256: str  # of the input, likewise; "" where it was null

    @property
    def mark(self) -> RetryKey:
        """What it is known by once it is sent again: nobody else can say so of other bytes."""
        value = self.message.value
        return self.id, self.sha256 if value is None else sha256(value).hexdigest()

    @property
    def obstacle(self) -> str | None:
        """Why another attempt cannot be made, if so."""
        if self.reason in UNREADABLE:
            return "there is nothing to retry: it stands for a record batch that cannot be read"
        if self.message.value is None and not self.sha256:
            return "it has no bytes: they were null"
        if self.attempt >= MOST_ATTEMPTS:
            return f"it has had {MOST_ATTEMPTS} attempts"
        return None

    @property
    def again(self) -> Headers:
        """The headers of its next attempt: the input's own, and what makes it one."""
        own = [
            (name.removeprefix(INPUT), value or b"")  # kafka-python sends no null
            for name, value in self.message.headers
            if name.startswith(INPUT) and name.removeprefix(INPUT) not in OURS
        ]  # fmt: skip
        return [*own, (ATTEMPT, str(self.attempt + 1).encode()), (RETRY_OF, self.id.encode())]

    def row(self) -> dict[str, Any]:
        """What the list says of it."""
        value = self.message.value
        size = self.size if value is None else len(value)
        return {
            "id": self.id,
            "reason": self.reason,
            "detail": self.detail,
            "attempt": self.attempt,
            "rejected_at": rfc3339(max(self.message.timestamp, 0)),
            "bytes": size,
        }


def read_letters(
    cluster: TopicReader, config: Config, start: int | None = None
) -> Iterator[DeadLetter]:
    """The dead letters that are there now, each once, from a time on."""
    topic = config.topics.rejected
    seen: set[tuple[str, int, str]] = set()
    for batch in cluster.read(topic, None if start is None else cluster.at(topic, start)):
        for letter in map(parse_letter, batch):
            # Delivered twice, a message is one dead letter; another attempt has another source, and
            # the same place in a topic that was made again another time.
            if (name := (letter.id, letter.attempt, letter.written)) not in seen:
                seen.add(name)
                yield letter


def read_original(cluster: TopicReader, config: Config, letter: DeadLetter) -> bytes | None:
    """The input of a dead letter without value, as long as the topic of posts still holds it."""
    topic = config.topics.posts
    place = letter.id.removeprefix(f"{topic}-").split("-")
    if len(place) != 2 or not all(part.isdecimal() and len(part) < 20 for part in place):
        return None  # also where the posts were read from another topic
    partition, offset = map(int, place)
    ends = cluster.ends(topic)
    if not 0 <= offset < ends.get(partition, 0):
        return None
    for batch in cluster.read(topic, ends | {partition: offset}, ends | {partition: offset + 1}):
        for message in batch:
            value = message.value
            if message.offset == offset and value is not None:
                return value if sha256(value).hexdigest() == letter.sha256 else None
    return None


def retried_keys(
    cluster: TopicReader, config: Config, chosen: Iterable[DeadLetter]
) -> set[RetryKey]:
    """Which letters were sent before, by the posts that came after the oldest of the chosen."""
    oldest = min((max(letter.message.timestamp, 0) for letter in chosen), default=None)
    if oldest is None:
        return set()
    topic = config.topics.posts
    batches = cluster.read(topic, cluster.at(topic, oldest - SLACK_MS))
    again = ((_texts(each.headers).get(RETRY_OF), each) for batch in batches for each in batch)
    return {
        (name, sha256(each.value or b"").hexdigest()) for name, each in again if name is not None
    }


def parse_letter(message: StoredMessage) -> DeadLetter:
    """The dead letter in a message; without the worker's headers it is named after its place."""
    headers = _texts(message.headers)
    place = f"{message.topic}-{message.partition}-{message.offset}"
    name, reason = headers.get("source") or place, headers.get("reason", "")
    detail, written = headers.get("detail", ""), headers.get("timestamp", "")
    size = headers.get("bytes", "")
    return DeadLetter(
        name, reason, detail, attempt(message), written, message,
        int(size) if size.isdecimal() and len(size) < 12 else None, headers.get("sha256", ""),
    )  # fmt: skip


def _texts(headers: Headers) -> dict[str, str]:
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers}


LOCK = "retry.lock"

GRACE_S = 5.0

Show = Callable[[DeadLetter], object]


class Obstacle(str):
    """Why a dead letter cannot be sent again."""


ValueOf = Callable[[DeadLetter], bytes | Obstacle]


@dataclass(frozen=True, slots=True)
class LetterSelection:
    """Which dead letters are to be sent again: those of these ids, else all, or of one reason."""

    names: frozenset[str] = frozenset()
    reason: str | None = None
    start: int | None = None

    def of(self, cluster: TopicReader, config: Config) -> Iterator[DeadLetter]:
        """Those that are there now."""
        for letter in read_letters(cluster, config, self.start):
            if letter.id in self.names if self.names else self.reason in (None, letter.reason):
                yield letter


@dataclass
class RetryProgress:
    """What is sent again, how much of it the broker has and was shown, and why others stay."""

    show: Show
    count: int = 0
    not_sent: Counter[str] = field(default_factory=Counter)
    under_way: deque[DeadLetter] = field(default_factory=deque)

    def report(self, delivered: int) -> None:
        """Show those that are delivered by now."""
        for _ in range(delivered - self.count):
            self.show(self.under_way.popleft())
            self.count += 1


def retry_letters(config: Config, choice: LetterSelection, show: Show) -> RetryProgress:
    """Send the chosen letters again when it is our turn, each shown once the broker has it."""
    with retry_lock(config), connected(config) as cluster, connected(config) as posts:
        cluster.partitions(config.topics.posts)
        done = retried_keys(cluster, config, choice.of(cluster, config))

        def value_of(letter: DeadLetter) -> bytes | Obstacle:
            if letter.obstacle:
                return Obstacle(letter.obstacle)
            if letter.mark in done:
                return Obstacle("it was sent again before")
            value = letter.message.value
            value = read_original(posts, config, letter) if value is None else value
            return Obstacle("the original is gone") if value is None else value

        if choice.names:
            _check(choice.names, value_of, choice.of(cluster, config))
        return _resend(config, choice.of(cluster, config), value_of, show)


def _check(names: frozenset[str], value_of: ValueOf, letters: Iterable[DeadLetter]) -> None:
    """Refuse, before anything is sent, ids that are unknown or that cannot be retried."""
    values = {letter.id: value_of(letter) for letter in letters}
    for name in sorted(names):
        if name not in values:
            raise no_such_letter(name)
        if isinstance(obstacle := values[name], Obstacle):
            raise InputError(f"dead letter {name!r}: cannot be retried: {obstacle}")


def _resend(
    config: Config, chosen: Iterable[DeadLetter], value_of: ValueOf, show: Show
) -> RetryProgress:
    """Send the chosen ones again, show those that the broker has, and count all others."""
    with sending(config) as outbox:
        sent = RetryProgress(show)
        try:
            for letter in chosen:
                value = value_of(letter)
                if isinstance(value, Obstacle):
                    sent.not_sent[value] += 1
                    continue
                sent.under_way.append(letter)
                outbox.send(config.topics.posts, value, letter.message.key, letter.again)
                sent.report(outbox.delivered)
            outbox.settle()
        finally:
            sent.report(outbox.drained(GRACE_S))
            others = f"; not retried: {format_counts(sent.not_sent)}" if sent.not_sent else ""
            notify(f"{sent.count:,} sent again{others}")
    return sent


def no_such_letter(name: str) -> InputError:
    """What is said of an id that no dead letter has."""
    return InputError(f"dead letter {name!r}: there is none; see newsift dead-letters list")


@contextmanager
def retry_lock(config: Config) -> Iterator[None]:
    """Wait until no other retry of this user is under way there; without a lock's place, go on."""
    path, lock = cache_root() / LOCK, None
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
            notify("another retry is under way; waiting for its end")
            fcntl.lockf(lock, fcntl.LOCK_EX, 1, place)
        yield
