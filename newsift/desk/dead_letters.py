"""The dead letters as they come: counted by reason, the newest kept without their bytes."""

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from threading import Lock
from typing import Any

from encoder.errors import InputError
from newsift.operations.dead_letters import DeadLetter, parse_letter
from worker.config import Config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.posts.outcome import Reason
from worker.text import escaped

NEWEST = 200
MOST_READ = 50_000  # of a topic that holds more, the newest
MOST_REASONS = 100
REASONS = {reason.value for reason in Reason}
LONGEST = 500  # characters of a name or a detail
MOST_BYTES = 4096  # bytes of a message
IN_HEX = 512  # of them
MOST_HEADERS = 50


class DeadLetterList:
    """Follows the topic of dead letters in bounded memory."""

    def __init__(self, config: Config) -> None:
        self._config, self._lock = config, Lock()
        self._forget()

    def begin(self, cluster: TopicReader) -> Offsets:
        """Forget everything, and read from the start, or the last so many."""
        topic = self._config.topics.rejected
        first, end = cluster.beginnings(topic), cluster.ends(topic)
        each = MOST_READ // len(end)
        start = {part: max(first[part], end[part] - each) for part in end}
        with self._lock:
            self._forget()
            self._older = sum(start[part] - first[part] for part in end)
        return start

    def take(self, batch: Sequence[StoredMessage]) -> None:
        """Count letters, each once however often it was delivered."""
        with self._lock:
            for letter in map(parse_letter, batch):
                self._take(letter)

    def sent_again(self, names: Iterable[str]) -> None:
        """Remember what was sent again from here."""
        with self._lock:
            for name in names:
                self._again[name] = None
                if len(self._again) > MOST_READ:
                    self._again.popitem(last=False)

    def summary(self) -> dict[str, Any]:
        """What there is, by reason and the newest first."""
        with self._lock:
            rows = sorted(self._newest, key=lambda row: str(row["rejected_at"]), reverse=True)
            again = [row | {"again": row["id"] in self._again} for row in rows]
            return {
                "reasons": dict(self._reasons.most_common()),
                "known": [name for name in self._reasons if name in REASONS],  # retried by name
                "all": self._reasons.total(), "older": self._older, "newest": again,
            }  # fmt: skip

    def since(self, moment: str) -> int:
        """How many of those kept were rejected after a moment in RFC 3339."""
        with self._lock:
            return sum(str(row["rejected_at"]) > moment for row in self._newest)

    def _take(self, letter: DeadLetter) -> None:
        name = f"{letter.id}\0{letter.attempt}\0{letter.written}"
        mark = blake2b(name.encode(), digest_size=12).digest()
        if mark in self._counted_ids:
            return
        self._counted_ids[mark] = None
        if len(self._counted_ids) > MOST_READ:
            self._counted_ids.popitem(last=False)
        row = _row(letter)
        reason = str(row["reason"])
        if reason not in self._reasons and len(self._reasons) >= MOST_REASONS:
            reason = "others"
        self._reasons[reason] += 1
        self._newest.append(row)

    def _forget(self) -> None:
        self._reasons = Counter[str]()
        self._newest = deque[dict[str, Any]](maxlen=NEWEST)
        self._counted_ids = OrderedDict[bytes, None]()
        self._again = OrderedDict[str, None]()
        self._older = 0


def whole_letter(
    cluster: TopicReader, config: Config, partition: int, offset: int
) -> dict[str, Any]:
    """One letter with the beginning of its bytes, as text with escapes and in hex."""
    topic = config.topics.rejected
    ends = cluster.ends(topic)
    if partition in ends and 0 <= offset < ends[partition]:
        start, end = ends | {partition: offset}, ends | {partition: offset + 1}
        for batch in cluster.read(topic, start, end):
            for message in batch:
                if (message.partition, message.offset) == (partition, offset):
                    return _row(parse_letter(message)) | _content(message)
    raise InputError(f"dead letter: {topic} holds none at {partition}-{offset} any more")


def as_text(raw: bytes | None) -> str | None:
    """Bytes as text, line by line, what cannot be seen as an escape."""
    if raw is None:
        return None
    text = raw[:MOST_BYTES].decode("utf-8", "backslashreplace")
    return "\n".join(escaped(line) for line in text.split("\n"))


def in_hex(raw: bytes) -> str:
    """Bytes in hex, sixteen a line, beside the letters that they may be."""
    lines = []
    for at in range(0, min(len(raw), IN_HEX), 16):
        piece = raw[at : min(at + 16, IN_HEX)]
        characters = "".join(chr(each) if 32 <= each < 127 else "." for each in piece)
        lines.append(f"{at:08x}  {piece.hex(' '):<47}  {characters}")
    return "\n".join(lines)


def _content(message: StoredMessage) -> dict[str, Any]:
    value = message.value
    headers = [[escaped(name)[:LONGEST], as_text((part or b"")[:LONGEST])]
               for name, part in message.headers[:MOST_HEADERS]]  # fmt: skip
    return {
        "key": as_text(message.key), "text": as_text(value), "headers": headers,
        "hex": None if value is None else in_hex(value), "cut": len(value or b"") > MOST_BYTES,
    }  # fmt: skip


def _row(letter: DeadLetter) -> dict[str, Any]:
    """What is told of a letter."""
    texts = {"id": letter.id[:LONGEST], "reason": letter.reason, "detail": letter.detail}
    fields = {name: escaped(part)[:LONGEST] for name, part in texts.items()}
    fields["id"] = texts["id"]  # by which it is sent again
    fields["reason"] = fields["reason"] or "none is named"
    place = {"partition": letter.message.partition, "offset": letter.message.offset}
    return letter.row() | fields | place | {"obstacle": letter.obstacle}
