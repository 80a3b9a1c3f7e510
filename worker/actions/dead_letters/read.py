"""Dead letters as the commands read them, and which of them were sent again."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from worker.config import Config
from worker.kafka.reading import StoredMessage, TopicReader
from worker.kafka.sending import Headers
from worker.match.records import INPUT, OURS, attempt
from worker.posts.outcome import Reason
from worker.posts.times import rfc3339

MOST_ATTEMPTS = 3
UNREADABLE = {Reason.BAD_BATCH, Reason.BATCH_BYTES}
ATTEMPT, RETRY_OF = OURS
Mark = tuple[str, str]
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
    def mark(self) -> Mark:
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


def dead_letters_of(
    cluster: TopicReader, config: Config, start: int | None = None
) -> Iterator[DeadLetter]:
    """The dead letters that are there now, each once, from a time on."""
    topic = config.topics.rejected
    seen: set[tuple[str, int, str]] = set()
    for batch in cluster.read(topic, None if start is None else cluster.at(topic, start)):
        for letter in map(letter_in, batch):
            # Delivered twice, a message is one dead letter; another attempt has another source, and
            # the same place in a topic that was made again another time.
            if (name := (letter.id, letter.attempt, letter.written)) not in seen:
                seen.add(name)
                yield letter


def original(cluster: TopicReader, config: Config, letter: DeadLetter) -> bytes | None:
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


def sent_again(cluster: TopicReader, config: Config, chosen: Iterable[DeadLetter]) -> set[Mark]:
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


def letter_in(message: StoredMessage) -> DeadLetter:
    """The dead letter in a message; without the worker's headers it is named after its place."""
    told = _texts(message.headers)
    place = f"{message.topic}-{message.partition}-{message.offset}"
    name, reason = told.get("source") or place, told.get("reason", "")
    detail, written = told.get("detail", ""), told.get("timestamp", "")
    size = told.get("bytes", "")
    return DeadLetter(
        name, reason, detail, attempt(message), written, message,
        int(size) if size.isdecimal() and len(size) < 12 else None, told.get("sha256", ""),
    )  # fmt: skip


def _texts(headers: Headers) -> dict[str, str]:
    return {name: (value or b"").decode("utf-8", "replace") for name, value in headers}
