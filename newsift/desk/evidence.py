"""What the labels of an event show of its threshold: one object, shown and decided by."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock

from newsift.desk.threads import TimedCache, lock_or_busy
from newsift.operations.events import PromiseTarget
from newsift.operations.labels import EventMatch, read_event_matches
from newsift.operations.messages import capture
from newsift.operations.promises import PromiseEvidence, weigh_labels
from newsift.operations.times import now_ms
from newsift.statistics.labels import Label
from worker.config import Config
from worker.kafka.reading import connected
from worker.posts.outcome import PostId
from worker.seeds.profile import Profile

DAY_MS = 86_400_000  # of matches, as `newsift events promise` takes them
MOST_EVENTS = 4  # whose matches are kept
FRESH_S = 20.0  # that they are kept, or longer where reading them takes long
TIMES = 10  # as long as it takes to read them
MOST = 64  # events and wishes whose evidence is kept


class RecentMatches:
    """Reads an event's matches again once those that it has are old; from several threads."""

    def __init__(self, config: Config, clock: Callable[[], float] = time.monotonic) -> None:
        self._config, self._reading = config, Lock()
        self._cache = TimedCache(self._read, FRESH_S, MOST_EVENTS, TIMES, clock)

    def of(self, event: str) -> Mapping[PostId, EventMatch]:
        """The matches of an event; those of before, while another thread reads them again."""
        return self._cache.of(event)

    def _read(self, event: str) -> Mapping[PostId, EventMatch]:
        with (
            lock_or_busy(self._reading, "the matches of another event are being read"),
            capture(), connected(self._config) as cluster,
        ):  # fmt: skip
            start = now_ms() - DAY_MS
            return read_event_matches(cluster, self._config, event, start)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What labels show of a profile's matches, and what it was found by."""

    profile: Profile
    labels: tuple[Label, ...]
    matches: Mapping[PostId, EventMatch]
    wish: PromiseTarget
    result: PromiseEvidence


class EvidenceCache:
    """The newest evidence of each event and wish; the same object while nothing has moved."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._newest: OrderedDict[tuple[str, float, float], Evidence] = OrderedDict()

    def of(
        self, profile: Profile, labels: tuple[Label, ...], matches: Mapping[PostId, EventMatch],
        precision: float, confidence: float,
    ) -> Evidence:  # fmt: skip
        """What these labels show of these matches of a profile."""
        name = profile.event, precision, confidence
        with self._lock:
            cached = self._newest.get(name)
        if (
            cached
            and cached.profile == profile
            and cached.matches is matches
            and cached.labels == labels
        ):
            return cached
        wish = PromiseTarget.of(profile, precision, confidence)
        result = weigh_labels(labels, matches, profile, wish)
        with self._lock:
            self._newest[name] = evidence = Evidence(profile, labels, matches, wish, result)
            self._newest.move_to_end(name)
            while len(self._newest) > MOST:
                self._newest.popitem(last=False)
        return evidence
