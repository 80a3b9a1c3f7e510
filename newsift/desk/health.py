"""The status page: problems with their remedies. Values are polled only while a page is open.

While no page is open, the alerts of Prometheus watch (deploy/prometheus/rules.yml).
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from itertools import chain, islice, pairwise
from threading import Event, Lock, Thread
from typing import Generic, TypeVar

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from newsift.collect.state import list_collectors
from newsift.desk.dead_letters import DeadLetterList
from newsift.desk.mirrors import TopicFollower
from newsift.desk.threads import failure_text
from newsift.operations.cluster_status import (
    OffsetSnapshot,
    Row,
    describe_group,
    message_rates,
    partition_rows,
    read_offsets,
)
from newsift.operations.workers import (
    ANSWER_ERRORS,
    http_get,
    kafka_cluster_id,
    worker_addresses,
)
from newsift.statistics.labels import LabelState
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.topics import admin_client, check_topics
from worker.posts.times import rfc3339
from worker.text import one_line, shorten

PRESENCE_S = 15.0  # A page counts as open for this time after a request.
POLL_S, TOPICS_POLL_S = 5.0, 30.0
NOT_YET = "it is not checked yet"
MAX_LAG_POINTS = 30  # more than those of MIN_GROWTH_S
MAX_RATE_INTERVAL_S = 30.0
MIN_GROWTH_S = 60.0  # A lag that grows for a shorter time is not a problem.
MAX_TRANSACTION_S = 120.0
MAX_GROUP_ROWS = 200
MAX_COLLECTORS = 50
MAX_PROBLEMS, MAX_PROBLEM_CHARS = 50, 400
WORKER_ANSWER_S = 2.0
MAX_WORKER_REQUESTS = 8
MAX_REASON_CHARS = 300
INFO_METRICS = {  # metric: key of the row, label with its value
    "newsift_model_info": ("model", "digest"),
    "newsift_seed_set_info": ("seed_set", "digest"),
    "newsift_version_info": ("version", "version"),
}
GAUGE_METRICS = {  # metric: key of the row
    "newsift_paused": "paused",
    "newsift_offsets_lost_total": "offsets_lost",
    "newsift_open_transaction_seconds": "open_transaction_s",
}
T = TypeVar("T")


class ViewerPresence:
    """Whether a page is open. Thread-safe."""

    def __init__(self) -> None:
        self._last, self._arrival, self.end = -PRESENCE_S, Event(), Event()

    def note(self) -> None:
        self._last = time.monotonic()
        self._arrival.set()

    def wait(self) -> bool:
        """Returns once a page is open; False once the desk ends."""
        while not self.end.is_set() and time.monotonic() - self._last > PRESENCE_S:
            self._arrival.clear()
            if time.monotonic() - self._last > PRESENCE_S:  # no viewer has come since
                self._arrival.wait(PRESENCE_S)
        return not self.end.is_set()

    def close(self) -> None:
        self.end.set()
        self._arrival.set()


class PolledValue(Generic[T]):
    """The latest value; `error` is the reason if the last poll failed."""

    def __init__(
        self, name: str, poll_once: Callable[[], T], viewers: ViewerPresence,
        on_change: Callable[[], None], every_s: float = POLL_S,
    ) -> None:  # fmt: skip
        """`on_change` is called after each poll."""
        self.name, self._poll_once, self._on_change = name, poll_once, on_change
        self._viewers, self._every_s = viewers, every_s
        self.value: T | None = None
        self.error = NOT_YET
        self.since = time.time()  # when `error` last became empty or got a reason

    def start(self) -> None:
        Thread(target=self._run, name=f"desk-{self.name}", daemon=True).start()

    def _run(self) -> None:
        while self._viewers.wait():
            self.poll()
            self._on_change()
            self._viewers.end.wait(self._every_s)

    def poll(self) -> None:
        try:
            self.value, error = self._poll_once(), ""
        except Exception as failure:  # noqa: BLE001 - it is logged and shown
            error = failure_text(failure, f"{self.name}: cannot be polled")
        if bool(error) != bool(self.error) or self.error == NOT_YET:
            self.since = time.time()
        self.error = error

    def row(self) -> Row:
        since = None if self.error == NOT_YET else rfc3339(int(self.since * 1000))
        return {"error": self.error, "since": since}


def group_row(
    state: str, members: list[Row], rows: list[Row], posts: Mapping[str, float] | None
) -> Row:
    """At most MAX_GROUP_ROWS rows of each kind; partitions with the largest lag first."""
    lag_of = {row["partition"]: row["lag"] for row in rows}
    by_lag = sorted(rows, key=lambda row: (-row["lag"], row["partition"]))
    return {
        "state": state,
        "lag": sum(lag_of.values()),
        "rates": posts,
        "members": [
            member | {"lag": sum(lag_of.get(part, 0) for part in member["partitions"])}
            for member in members[:MAX_GROUP_ROWS]
        ],
        "all_members": len(members),
        "partitions": by_lag[:MAX_GROUP_ROWS],
        "all_partitions": len(rows),
    }


def is_growing(lags: Sequence[tuple[float, int]]) -> bool:
    """The lag was read throughout the last minute, has risen in it, and has never fallen."""
    if not lags or lags[-1][0] - lags[0][0] < MIN_GROWTH_S:
        return False
    recent = [(time_s, lag) for time_s, lag in lags if lags[-1][0] - time_s <= MIN_GROWTH_S]
    return (
        recent[-1][1] > recent[0][1]
        and recent[-1][0] - recent[0][0] > MIN_GROWTH_S - MAX_RATE_INTERVAL_S
        and all(after >= before for (_, before), (_, after) in pairwise(recent))
    )


def query_workers(addresses: Iterable[str]) -> list[Row]:
    with ThreadPoolExecutor(MAX_WORKER_REQUESTS, "desk-worker") as pool:
        return list(pool.map(query_worker, addresses))


def query_worker(address: str) -> Row:
    """`error` is the reason if the worker does not answer."""
    row: Row = {"address": address, "error": "", "ready": False, "reason": ""}
    try:
        status, body = http_get(address, "/readyz", WORKER_ANSWER_S)
        answer = msgspec.json.decode(body)
        reason = answer.get("reason") if isinstance(answer, dict) else None
        row |= {"ready": status == 200, "reason": str(reason or "")[:MAX_REASON_CHARS]}
        status, body = http_get(address, "/metrics", WORKER_ANSWER_S)
        return row | (read_metrics(body.decode()) if status == 200 else {})
    except ANSWER_ERRORS as error:
        failure = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return row | {"error": f"this worker does not answer ({failure})"[:MAX_REASON_CHARS]}


def read_metrics(page: str) -> Row:
    row: Row = dict.fromkeys([*(key for key, _ in INFO_METRICS.values()), *GAUGE_METRICS.values()])
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name in INFO_METRICS:
                key, label = INFO_METRICS[sample.name]
                row[key] = sample.labels.get(label, "")[:MAX_REASON_CHARS]
            elif key := GAUGE_METRICS.get(sample.name, ""):
                row[key] = max(row[key] or 0, sample.value)
    return row


@dataclass(frozen=True, slots=True)
class HealthSnapshot:
    broker_error: str  # why the broker does not answer, if so
    group: Row | None = None
    grows: bool = False
    workers: Sequence[Row] = ()
    topics: Sequence[Row] = ()
    labels_left_out: int = 0


def list_problems(snapshot: HealthSnapshot) -> list[str]:
    if snapshot.broker_error == NOT_YET:
        return []
    if snapshot.broker_error:
        problems = iter([f"the broker does not answer: {snapshot.broker_error}"])
    else:
        workers = _worker_problems(snapshot.workers)
        problems = chain(_group_problems(snapshot), workers, _topic_problems(snapshot))
    lines = map(one_line, islice(problems, MAX_PROBLEMS))
    return [shorten(line, MAX_PROBLEM_CHARS) for line in lines]


def _group_problems(snapshot: HealthSnapshot) -> Iterator[str]:
    if (group := snapshot.group) is not None:
        if not group["all_members"]:
            yield "no worker runs, so nothing is matched; start one with: faust -A worker worker"
        elif snapshot.grows:
            remedy = f"start another worker, up to {group['all_partitions']:,} in all"
            if group["all_members"] >= group["all_partitions"]:
                remedy = "each partition has a worker, so add partitions or faster machines"
            yield f"posts come faster than they are read: {group['lag']:,} wait; {remedy}"


def _worker_problems(rows: Sequence[Row]) -> Iterator[str]:
    workers = [row for row in rows if not row["error"]]
    for row in workers:
        worker = f"the worker at {row['address']}"
        if not row["ready"]:
            yield f"{worker} is not ready: {row['reason'] or 'it gives no reason'}"
        if row.get("paused"):
            yield f"{worker} is paused: a topic does not take what it writes; check its brokers"
        if gap := row.get("offsets_lost"):
            yield f"{worker} lost {gap:,.0f} posts that were deleted before it read them"
        if (row.get("open_transaction_s") or 0) > MAX_TRANSACTION_S:
            yield f"{worker} waits for a transaction that another producer left open; end that one"
    if len({row["model"] for row in workers if row.get("model")}) > 1:
        yield "workers run different models; compare their configurations"


def _topic_problems(snapshot: HealthSnapshot) -> Iterator[str]:
    for row in snapshot.topics:
        if row["serious"]:
            setting = f"{row['setting']} is {row['actual']}, must be {row['required']}"
            yield f"{row['topic']}: {setting}; {row['fix']}"
    if left_out := snapshot.labels_left_out:
        yield (
            f"{left_out:,} labels are left out, as there is no room for them; "
            "the page Judge shows who gave most of them; or change topics.labels"
        )


def summarise(snapshot: HealthSnapshot) -> Row:
    """The status in the head of every page."""
    problems = list_problems(snapshot)
    state, text = ("bad", f"{len(problems)} problem{'s' * (len(problems) > 1)}")
    if snapshot.broker_error == NOT_YET:
        state, text = "unknown", "checking"
    elif snapshot.broker_error:
        text = "no broker"
    elif snapshot.group is not None and not snapshot.group["all_members"]:
        text = "no worker"
    elif not problems:
        state, text = "good", "all well"
    return {"state": state, "text": text, "problems": problems}


class HealthMonitor:
    def __init__(
        self, config: Config, sources: Callable[[], Mapping[str, str]],
        labels: Callable[[], LabelState], on_change: Callable[[], None],
    ) -> None:  # fmt: skip
        """`sources` maps what the desk reads to the reason why it cannot, or ""."""
        self._config, self._sources, self._labels = config, sources, labels
        self._viewers = ViewerPresence()
        self._lag_points: deque[tuple[float, int]] = deque(maxlen=MAX_LAG_POINTS)
        self._last_offsets: OffsetSnapshot | None = None

        def polled_value(
            name: str, poll_once: Callable[[], T], every_s: float = POLL_S
        ) -> PolledValue[T]:
            return PolledValue(name, poll_once, self._viewers, on_change, every_s)

        self._group = polled_value("broker", self._read_group)
        self._topics = polled_value("topics", self._read_topics, TOPICS_POLL_S)
        cluster_id = partial(kafka_cluster_id, config)
        self._workers = polled_value(
            "workers", lambda: query_workers(worker_addresses(config, cluster_id))
        )
        self._collectors = polled_value(
            "collectors", lambda: list(islice(list_collectors(), MAX_COLLECTORS))
        )
        self.letters = DeadLetterList(config)
        rejected = config.topics.rejected
        self.letters_follower = TopicFollower(config, rejected, self.letters, on_change)
        self._lock, self._polling, self._reading_letters = Lock(), False, False
        self.retrying = Lock()  # one retry of dead letters at a time

    def note_viewer(self, letters: bool = False) -> None:
        """Dead letters are read once a page asks for them."""
        with self._lock:
            if not self._polling:
                self._polling = True
                for value in (self._group, self._topics, self._workers, self._collectors):
                    value.start()
            if letters and not self._reading_letters:
                self._reading_letters = True
                self.letters_follower.start()
        self._viewers.note()

    def stop(self) -> None:
        """May be called even if polling never started."""
        self._viewers.close()
        self.letters_follower.stop()

    def summary(self) -> Row:
        return summarise(self._snapshot())

    def status(self) -> Row:
        snapshot = self._snapshot()
        return {
            "kafka": self._config.kafka.bootstrap_servers,
            "group": self._config.kafka.group,
            "problems": list_problems(snapshot),
            "broker": self._group.row() | (snapshot.group or {}),
            "workers": self._workers.row() | {"rows": snapshot.workers},
            "topics": self._topics.row() | {"rows": snapshot.topics},
            "collectors": self._collectors.row() | {"rows": self._collectors.value or []},
            "sources": [{"name": name, "error": why} for name, why in self._sources().items()],
        }

    def _read_group(self) -> Row:
        with connected(self._config) as cluster, admin_client(self._config) as admin:
            cluster.partitions(self._config.topics.posts)
            now = read_offsets(cluster, admin, self._config)
            state, members = describe_group(admin, self._config)
        before, self._last_offsets = self._last_offsets, now
        with self._lock:
            self._lag_points.append((time.time(), sum(now.lag.values())))
        is_recent = before is not None and now.at - before.at < MAX_RATE_INTERVAL_S
        rates = message_rates(before, now) if before and is_recent else None
        return group_row(state, members, partition_rows(now, members), rates)

    def _read_topics(self) -> list[Row]:
        """Wrong settings. A missing labels topic is not one: the first label creates it."""
        labels = self._config.topics.labels, "topic"
        problems = check_topics(self._config)
        return [
            asdict(problem) for problem in problems if (problem.topic, problem.setting) != labels
        ]

    def _snapshot(self) -> HealthSnapshot:
        error = self._group.error
        with self._lock:
            lags = list(self._lag_points)
        return HealthSnapshot(
            error,
            group=None if error else self._group.value,
            grows=not error and is_growing(lags),
            workers=self._workers.value or [],
            topics=(self._topics.value or []) if not self._topics.error else [],
            labels_left_out=self._labels().left_out,
        )
