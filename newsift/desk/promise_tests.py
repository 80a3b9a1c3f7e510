"""What the labels of an event show of its threshold: one object, both shown and decided by."""

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from threading import Lock

from newsift.desk.period import Period, StreamPeriod
from newsift.desk.threads import TimedCache, lock_or_busy
from newsift.operations.events import PromiseTarget
from newsift.operations.labels import EventMatch, read_event_matches
from newsift.operations.messages import capture
from newsift.operations.promises import PromiseEvidence, weigh_evidence
from newsift.statistics.labels import Label
from worker.config import Config
from worker.kafka.reading import connected
from worker.posts.outcome import PostId
from worker.seeds.profile import Profile

MAX_CACHED_EVENTS = 4
MATCHES_TTL_S, COST_FACTOR = 20.0, 10
MAX_TESTS = 64


@dataclass(frozen=True, eq=False)
class PromiseTest:
    profile: Profile
    labels: tuple[Label, ...]
    matches: Mapping[PostId, EventMatch]
    target: PromiseTarget
    result: PromiseEvidence


class PromiseTests:
    """The latest test of each event and target. Thread-safe."""

    def __init__(
        self, config: Config, period: Period | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._config, self._lock, self._reading = config, Lock(), Lock()
        self._period = period or StreamPeriod()
        self._matches = TimedCache(self._read, MATCHES_TTL_S, MAX_CACHED_EVENTS, COST_FACTOR, clock)
        self._tests: OrderedDict[tuple[str, float, float], PromiseTest] = OrderedDict()

    def test(
        self, profile: Profile, labels: tuple[Label, ...], matches: Mapping[PostId, EventMatch],
        precision: float, confidence: float,
    ) -> PromiseTest:  # fmt: skip
        """The same object while profile, labels and matches are the same."""
        name = profile.event, precision, confidence
        with self._lock:
            test = self._tests.get(name)
        if test and (test.profile, test.labels) == (profile, labels) and test.matches is matches:
            return test
        target = PromiseTarget.for_profile(profile, precision, confidence)
        test = PromiseTest(
            profile, labels, matches, target,
            weigh_evidence(labels, matches, profile, target, self._period.is_file),
        )  # fmt: skip
        with self._lock:
            self._tests[name] = test
            self._tests.move_to_end(name)
            while len(self._tests) > MAX_TESTS:
                self._tests.popitem(last=False)
        return test

    def matches(self, event: str) -> Mapping[PostId, EventMatch]:
        return self._matches.get((event, self._period.version))

    def _read(self, key: tuple[str, int]) -> Mapping[PostId, EventMatch]:
        event, _ = key
        with (
            lock_or_busy(self._reading, "the matches of another event are being read"),
            capture(), connected(self._config) as cluster,
        ):  # fmt: skip
            # of a stream the last day, as `newsift events promise` takes it
            period = self._period
            begin = period.file_begin(self._config.topics.matches)
            return read_event_matches(cluster, self._config, event, period.since, begin)
