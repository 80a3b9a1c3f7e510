"""The status page: broker, workers, topics and collectors, asked while somebody looks."""

import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import islice, pairwise
from threading import Event, Lock, Thread
from typing import Any, Generic, TypeVar

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from encoder.errors import NewsiftError
from newsift.collect.state import list_collectors
from newsift.desk.alerts import NOT_YET, HealthSnapshot, alerts_of, summary_of
from newsift.desk.dead_letters import DeadLetterList
from newsift.desk.mirrors import Following
from newsift.operations.cluster_status import (
    OffsetSnapshot,
    Row,
    describe_group,
    message_rates,
    partition_rows,
    read_offsets,
)
from newsift.operations.times import now_ms
from newsift.operations.workers import (
    ANSWER_ERRORS,
    TOO_FEW,
    get_answer,
    kafka_cluster_id,
    parse_drift,
    worker_addresses,
)
from newsift.statistics.labels import LabelState
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.topics import administering, check_topics
from worker.match.drift import in_a_sentence
from worker.posts.times import rfc3339

LOOKED_S = 15.0  # after which nobody is taken to look any more
T = TypeVar("T")
log = logging.getLogger("newsift.desk")
REMEMBERED = 180  # looks: a quarter of an hour
STALE_S = 30.0  # after which a look tells no rate any more
GROWS_S = 60.0  # for so long a lag has to grow to be told of
PAGE_KEYS = {"actual": "found", "required": "wanted"}  # as `topics check --json` names them
MOST_ROWS = 200  # partitions and members, those that are furthest behind first
ANSWER_S = 2.0
AT_ONCE = 8
LONGEST = 300  # characters of what one says
INFO = {"newsift_model_info": "digest", "newsift_seed_set_info": "digest",
        "newsift_version_info": "version"}  # fmt: skip
NUMBERS = ("newsift_paused", "newsift_offsets_lost_total")
SUMS = ("newsift_unreadable_batches_total", "newsift_lag_posts")
MOST_OF = ("newsift_open_transaction_seconds",)
TOPICS_S = 30.0  # between two looks at the topics' settings
LATELY_MS = 600_000
HOUR_MS = 3_600_000
MOST_COLLECTORS = 50


class ViewerPresence:
    """Whether somebody looks; many threads ask."""

    def __init__(self) -> None:
        self._last, self._arrival, self.ended = -LOOKED_S, Event(), Event()

    def look(self) -> None:
        """Somebody looks now."""
        self._last = time.monotonic()
        self._arrival.set()

    def wait(self) -> bool:
        """Wait until somebody looks; False once all is over."""
        while not self.ended.is_set() and time.monotonic() - self._last > LOOKED_S:
            self._arrival.clear()
            if time.monotonic() - self._last > LOOKED_S:  # nobody came in between
                self._arrival.wait(LOOKED_S)
        return not self.ended.is_set()

    def close(self) -> None:
        """All is over."""
        self.ended.set()
        self._arrival.set()


class PolledValue(Generic[T]):
    """The latest answer to a question, and why there is none any more, if so."""

    def __init__(
        self, name: str, ask: Callable[[], T], viewers: ViewerPresence, moved: Callable[[], None],
        every_s: float = 5.0,
    ) -> None:  # fmt: skip
        """`moved` is told of each answer, and of each refusal."""
        self.name, self._ask, self._viewers, self._moved = name, ask, viewers, moved
        self._every_s = every_s
        self.answer: T | None = None
        self.away = NOT_YET
        self.at: float | None = None  # when it was last answered, in seconds since 1970
        self.since = time.time()  # when it began to be away, or to be there

    def start(self) -> None:
        """Begin to look when somebody does."""
        Thread(target=self._run, name=f"desk-{self.name}", daemon=True).start()

    def _run(self) -> None:
        while self._viewers.wait():
            self.look()
            self._moved()
            self._viewers.ended.wait(self._every_s)

    def look(self) -> None:
        """Ask once."""
        try:
            self.answer, away, self.at = self._ask(), "", time.time()
        except NewsiftError as error:
            away = str(error)
        except Exception as error:
            log.exception("%s: it cannot be told how it is", self.name)
            away = f"{type(error).__name__}: {error}"
        if bool(away) != bool(self.away) or self.away == NOT_YET:
            self.since = time.time()
        self.away = away


@dataclass(frozen=True, slots=True)
class GroupStatus:
    """What the broker says of the workers at one moment."""

    state: str
    workers: list[Row]
    partitions: list[Row]
    lag: int
    rates: dict[str, float] | None  # None with the first look


@dataclass
class BrokerMonitor:
    """Looks at the broker, and remembers the lag of the last minutes."""

    config: Config
    line: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=REMEMBERED))
    _before: OffsetSnapshot | None = None
    _lock: Lock = field(default_factory=Lock)

    def look(self) -> GroupStatus:
        """Where everything stands now."""
        with connected(self.config) as cluster, administering(self.config) as admin:
            cluster.partitions(self.config.topics.posts)
            now = read_offsets(cluster, admin, self.config)
            state, workers = describe_group(admin, self.config)
        before, self._before = self._before, now
        rows = partition_rows(now, workers)
        lag = sum(now.lag.values())
        with self._lock:
            self.line.append((time.time(), lag))
        fresh = before is not None and now.at - before.at < STALE_S
        return GroupStatus(
            state, workers, rows, lag, message_rates(before, now) if before and fresh else None
        )

    def lags(self) -> list[tuple[float, int]]:
        """When it was looked, and what the lag was."""
        with self._lock:
            return list(self.line)

    def topics(self) -> list[Row]:
        """Where the topics are not as they should be."""
        labels = self.config.topics.labels, "topic"  # a missing one is made by the first label
        problems = check_topics(self.config)
        return [
            {PAGE_KEYS.get(name, name): value for name, value in asdict(each).items()}
            for each in problems if (each.topic, each.setting) != labels
        ]  # fmt: skip


def grows(line: list[tuple[float, int]]) -> bool:
    """Whether the lag has never fallen in the last minute, and has risen."""
    if not line:
        return False
    recent = [each for each in line if line[-1][0] - each[0] <= GROWS_S]
    whole = line[-1][0] - line[0][0] >= GROWS_S
    never_less = all(b[1] >= a[1] for a, b in pairwise(recent))
    return whole and never_less and recent[-1][1] > recent[0][1]


def group_row(group: GroupStatus) -> dict[str, Any]:
    """The group as the page gets it: bounded, who is furthest behind first."""
    furthest = sorted(group.partitions, key=lambda row: (-row["lag"], row["partition"]))
    lags = {row["partition"]: row["lag"] for row in group.partitions}
    members = [
        row | {"lag": sum(lags.get(part, 0) for part in row["partitions"])} for row in group.workers
    ]
    return {
        "state": group.state, "lag": group.lag, "rates": group.rates,
        "members": members[:MOST_ROWS], "all_members": len(members),
        "partitions": furthest[:MOST_ROWS], "all_partitions": len(furthest),
    }  # fmt: skip


def query_workers(addresses: Iterable[str]) -> list[Row]:
    """What each says of itself, asked at the same time."""
    with ThreadPoolExecutor(AT_ONCE, "desk-worker") as hands:
        return list(hands.map(query_worker, addresses))


def query_worker(address: str) -> Row:
    """What a worker says of itself; `away` says why it says nothing."""
    row: Row = {"address": address, "away": "", "ready": False, "reason": "", "drift": None}
    try:
        status, body = get_answer(address, "/readyz", ANSWER_S)
        answer = msgspec.json.decode(body)
        reason = answer.get("reason") if isinstance(answer, dict) else None
        row |= {"ready": status == 200, "reason": str(reason or "")[:LONGEST]}
        status, body = get_answer(address, "/metrics", ANSWER_S)
        return row | (of_metrics(body.decode()) if status == 200 else {})
    except ANSWER_ERRORS as error:
        failure = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return row | {"away": f"no worker answers ({failure})"[:LONGEST]}


def of_metrics(page: str) -> Row:
    """What a page of a worker's metrics says."""
    values: Row = dict.fromkeys((*INFO, *NUMBERS, *SUMS, *MOST_OF))
    refused, bursts = 0, Counter[str]()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            name, value = sample.name, sample.value
            if name in INFO:
                values[name] = sample.labels.get(INFO[name], "")[:LONGEST]
            elif name in NUMBERS:
                values[name] = value
            elif name in SUMS:
                values[name] = (values[name] or 0) + value
            elif name in MOST_OF:
                values[name] = max(values[name] or 0, value)
            elif name == "newsift_seeds" and sample.labels.get("state") == "refused":
                refused = int(value)
            elif name == "newsift_bursts_total":
                bursts[sample.labels.get("event", "")] += int(value)
    drifting = parse_drift(page)
    drifting_events = {each.event for each in drifting or ()}
    events = {
        name: in_a_sentence(each for each in drifting or () if each.event == name)
        for name in sorted(drifting_events)
    }
    short = {name.removeprefix("newsift_").removesuffix("_info"): v for name, v in values.items()}
    drift = None if drifting is None else in_a_sentence(drifting) or TOO_FEW
    return short | {
        "refused_seeds": refused, "drift": drift, "events": events, "bursts": bursts,
    }  # fmt: skip


class HealthMonitor:
    """Looks at the broker, the workers, the topics and the collectors while somebody does."""

    def __init__(
        self,
        config: Config,
        followed: Callable[[], Mapping[str, str]],
        labels: Callable[[], LabelState],
        moved: Callable[[], None],
    ) -> None:
        """`followed` says of what the desk follows why it does not, if so."""
        self.config, self._followed, self._labels = config, followed, labels
        self._viewers, self._broker = ViewerPresence(), BrokerMonitor(config)
        self._group: PolledValue[GroupStatus] = PolledValue(
            "broker", self._broker.look, self._viewers, moved
        )
        self._topics = PolledValue("topics", self._broker.topics, self._viewers, moved, TOPICS_S)
        self._workers = PolledValue("workers", self._ask_workers, self._viewers, moved)
        self._collectors = PolledValue("collectors", _collectors, self._viewers, moved)
        self.letters = DeadLetterList(config)
        self.of_letters = Following(config, config.topics.rejected, self.letters, moved)
        self._lock, self._begun, self._reading = Lock(), False, False
        self.retrying = Lock()  # one retry at a time

    def look(self, at_letters: bool = False) -> None:
        """Somebody looks: from now on all is asked, for a while; letters are read once wanted."""
        with self._lock:
            if not self._begun:
                self._begun = True
                for part in (self._group, self._topics, self._workers, self._collectors):
                    part.start()
            if at_letters and not self._reading:
                self._reading = True
                self.of_letters.start()
        self._viewers.look()

    def _ask_workers(self) -> list[Row]:
        return query_workers(worker_addresses(self.config, partial(kafka_cluster_id, self.config)))

    def stop(self) -> None:
        """Look no more; harmless if nobody ever did."""
        self._viewers.close()
        self.of_letters.stop()

    def summary(self) -> Row:
        """The state of all in two words, and what to do."""
        return summary_of(self._snapshot())

    def drift(self) -> dict[str, str]:
        """What the workers say of each event's drift; empty where too little is known."""
        sentences: dict[str, str] = {}
        for row in self._snapshot().workers:
            for event, sentence in (row.get("events") or {}).items():
                sentences[event] = sentences.get(event) or sentence
        return sentences

    def bursts(self) -> Counter[str]:
        """In how many minutes each event had a burst of stories, since the workers began."""
        return sum((row.get("bursts") or Counter() for row in self._snapshot().workers), Counter())

    def status(self) -> dict[str, Any]:
        """All that was seen by the last looks."""
        snapshot = self._snapshot()
        return {
            "kafka": snapshot.kafka,
            "group": self.config.kafka.group,
            "alerts": alerts_of(snapshot),
            "broker": _state(self._group) | (snapshot.group or {}),
            "line": [[round(1000 * at), lag] for at, lag in self._broker.lags()],
            "workers": _state(self._workers) | {"rows": snapshot.workers},
            "topics": _state(self._topics) | {"rows": snapshot.topics},
            "collectors": _state(self._collectors) | {"rows": snapshot.collectors},
            "followed": [{"name": name, "away": why} for name, why in snapshot.followed.items()],
        }

    def _snapshot(self) -> HealthSnapshot:
        group = self._group.answer
        lately = rfc3339(now_ms() - LATELY_MS)
        there, labels = not self._group.away, self._labels()
        return HealthSnapshot(
            kafka=self.config.kafka.bootstrap_servers,
            away=self._group.away,
            group=group_row(group) if group and there else None,
            grows=there and grows(self._broker.lags()),
            workers=self._workers.answer or [],
            topics=(self._topics.answer or []) if not self._topics.away else [],
            collectors=self._collectors.answer or [],
            followed=self._followed(),
            rejected=self.letters.since(lately),
            labels_left_out=labels.left_out,
            labels_refused=len(labels.refused),
        )


def _collectors() -> list[Row]:
    """Those of this host, each with whether it was at work within the hour."""
    lately = rfc3339(now_ms() - HOUR_MS)
    rows = islice(list_collectors(), MOST_COLLECTORS)
    return [row | {"ran_lately": (row["saved_at"] or "") > lately} for row in rows]


def _state(part: PolledValue[Any]) -> dict[str, Any]:
    """Whether a part is there, since when, and when it was last answered."""
    at = None if part.at is None else rfc3339(int(part.at * 1000))
    since = None if part.away == NOT_YET else rfc3339(int(part.since * 1000))
    return {"away": part.away, "since": since, "at": at}
