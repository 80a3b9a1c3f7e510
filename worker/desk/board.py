"""The board: the newest matches of each event, with counts, in bounded memory whatever comes.

Counts are of posts: the first match of a post with an event counts, as the contract has it. Copies
are folded into stories by the workers' hints; of a story the first posts are kept, and the number.
"""

import time
from collections.abc import Callable, Collection, Sequence
from threading import Lock

from worker.config import Config
from worker.desk.finding import Finding, Wanted, found_in
from worker.desk.stories import HOUR, HOURS, EventBoard, Row, Story, Tally, rows_in
from worker.judge.labels import PostId
from worker.kafka.reading import Offsets, StoredMessage, TopicReader

MOST_READ = 200_000  # records, the newest: so many are read when the desk is opened
MOST_EVENTS = 1_000
ROOM = 2**26  # bytes of matches
SEEN = 2**17  # posts that are remembered, at least, so that none counts twice


def _present() -> int:
    return int(time.time() * 1000)


class Board:
    """Follows the topic of matches; whatever it gives may be asked by any thread."""

    def __init__(
        self,
        config: Config,
        kept: Callable[[], Collection[str]] = tuple,
        now: Callable[[], int] = _present,
    ) -> None:
        """`kept` names the events that are not forgotten first where too many come."""
        self._topic, self._kept, self._now = config.topics.matches, kept, now
        self._lock = Lock()
        self._cut = set[int]()  # partitions of which older records are not read
        self._forget()

    def begin(self, cluster: TopicReader) -> Offsets:
        """Forget everything, and read the last day, or as many records as are looked at."""
        with self._lock:
            self._forget()
            now, ends = self._now(), cluster.ends(self._topic)
            day = cluster.at(self._topic, now - HOURS * HOUR)
            most = MOST_READ // len(ends)
            self._cut = {part for part, end in ends.items() if end - day[part] > most}
            self._since = now - HOURS * HOUR
        return {part: max(day[part], end - most) for part, end in ends.items()}

    def take(self, batch: Sequence[StoredMessage]) -> None:
        """Keep what came."""
        now = self._now()
        with self._lock:
            for message in batch:
                self._take(message, now)

    @property
    def since(self) -> int:
        """The time from which on all matches are counted, in milliseconds."""
        with self._lock:
            return self._since

    @property
    def passed_over(self) -> int:
        """How many records were none of a match."""
        with self._lock:
            return self._passed_over

    def events(self) -> list[str]:
        """The events that posts matched."""
        with self._lock:
            return list(self._events)

    def tally(self, event: str) -> Tally:
        """What was counted of one event."""
        with self._lock:
            return self._events.get(event, EventBoard()).tally(self._now())

    def passed(self, event: str, version: str) -> int | None:
        """How many posts matched a version of a profile within an hour; None if not all counted."""
        now = self._now()
        with self._lock:
            if self._since > now - HOUR:
                return None
            return self._events.get(event, EventBoard()).passed(version, now)

    def find(self, event: str, wanted: Wanted) -> Finding:
        """The stories of an event that somebody wants to see."""
        return found_in(self.stories(event), wanted)

    def stories(self, event: str) -> list[Story]:
        """All stories of an event that are kept, in the order of their coming."""
        with self._lock:
            return self._events[event].stories if event in self._events else []

    def rows(self, event: str) -> list[Row]:
        """All matches of an event that are kept, in the order of their coming."""
        with self._lock:
            stories = self._events[event].stories if event in self._events else []
            rows = [row for story in stories for row in story.rows.values()]
        return sorted(rows, key=lambda row: row.number)

    def row(self, event: str, post_id: PostId) -> Row | None:
        """The match of one post, if it is kept."""
        with self._lock:
            return self._events[event].row(post_id) if event in self._events else None

    def copies(self, event: str, group: str) -> list[Row]:
        """The posts of a story that are kept, in the order of their coming."""
        with self._lock:
            story = self._events[event].story(group) if event in self._events else None
            return [] if story is None else list(story.rows.values())

    def _forget(self) -> None:
        self._events: dict[str, EventBoard] = {}
        self._young, self._old = set[int](), set[int]()  # posts, by hashes
        self._number = self._passed_over = self._since = self._size = 0

    def _take(self, message: StoredMessage, now: int) -> None:
        if message.partition in self._cut:
            self._cut.discard(message.partition)
            self._since = max(self._since, min(message.timestamp, now))
        self._number += 1
        rows = list(rows_in(message, self._number, now))
        self._passed_over += not rows
        for event, row in rows:
            board = self._events.setdefault(event, EventBoard())
            before = board.size
            board.add(row, self._is_first(event, row.post_id))
            self._size += board.size - before
        if len(self._events) > MOST_EVENTS * 5 // 4:
            self._drop_events()
        while self._size > ROOM:
            self._halve()

    def _is_first(self, event: str, post_id: PostId) -> bool:
        named = hash((event, post_id))
        if named in self._young or named in self._old:
            return False
        self._young.add(named)
        if len(self._young) >= SEEN:
            self._young, self._old = set(), self._young
        return True

    def _drop_events(self) -> None:
        """Forget events, first of all those that nobody has seeds for, in the order of time."""
        kept = self._kept()
        by_age = sorted(self._events, key=lambda name: (name in kept, self._events[name].number))
        for name in by_age[:-MOST_EVENTS]:
            self._size -= self._events.pop(name).size

    def _halve(self) -> None:
        """Let go of the older stories of the event that takes most."""
        largest = max(self._events.values(), key=lambda board: board.size)
        before = largest.size
        largest.keep(len(largest.stories) // 2)
        self._size += largest.size - before
