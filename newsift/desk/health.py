"""Broker, workers, lag and seeds on every page: each problem with the command that helps.

Values are polled only while a page is open.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import islice, pairwise
from threading import Event, Lock, Thread
from typing import Generic, NamedTuple, TypeVar

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from newsift.desk.threads import failure_text
from newsift.operations.cluster_status import Row, describe_group, read_offsets
from newsift.operations.workers import (
    ANSWER_ERRORS,
    ask_worker,
    kafka_cluster_id,
    worker_addresses,
)
from worker.config import Config
from worker.kafka.reading import connected
from worker.kafka.topics import admin_client
from worker.metrics.address_file import WorkerAddress
from worker.text import one_line, plural, shorten

PRESENCE_S = 15.0  # A page counts as open for this time after a request.
POLL_S = 5.0
NOT_YET = "it is not checked yet"
MAX_LAG_POINTS = 30  # more than those of MIN_GROWTH_S
MAX_POINTS_INTERVAL_S = 30.0
MIN_GROWTH_S = 60.0  # A lag that grows for a shorter time is not a problem.
MAX_TRANSACTION_S = 120.0
MAX_PROBLEMS, MAX_PROBLEM_CHARS = 50, 400
WORKER_ANSWER_S = 2.0
MAX_WORKER_REQUESTS = 8
MAX_REASON_CHARS = 300
WORKER_METRICS = {  # metric: key of the row
    "newsift_paused": "paused",
    "newsift_offsets_lost_total": "offsets_lost",
    "newsift_open_transaction_seconds": "open_transaction_s",
}
STATUS, START = "newsift status", "faust -A worker worker"
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

    def start(self) -> None:
        Thread(target=self._run, name=f"desk-{self.name}", daemon=True).start()

    def _run(self) -> None:
        while self._viewers.wait():
            self.poll()
            self._on_change()
            self._viewers.end.wait(self._every_s)

    def poll(self) -> None:
        try:
            self.value, self.error = self._poll_once(), ""
        except Exception as failure:  # noqa: BLE001 - it is logged and shown
            self.error = failure_text(failure, f"{self.name}: cannot be polled")


def is_growing(lags: Sequence[tuple[float, int]]) -> bool:
    """The lag was read throughout the last minute, has risen in it, and has never fallen."""
    if not lags or lags[-1][0] - lags[0][0] < MIN_GROWTH_S:
        return False
    recent = [(time_s, lag) for time_s, lag in lags if lags[-1][0] - time_s <= MIN_GROWTH_S]
    return (
        recent[-1][1] > recent[0][1]
        and recent[-1][0] - recent[0][0] > MIN_GROWTH_S - MAX_POINTS_INTERVAL_S
        and all(after >= before for (_, before), (_, after) in pairwise(recent))
    )


def query_workers(addresses: Iterable[WorkerAddress]) -> list[Row]:
    with ThreadPoolExecutor(MAX_WORKER_REQUESTS, "desk-worker") as pool:
        return list(pool.map(query_worker, addresses))


def query_worker(worker: WorkerAddress) -> Row:
    """`error` is the reason if the worker does not answer."""
    row: Row = {"address": worker.address, "error": "", "ready": False, "reason": ""}
    try:
        status, body = ask_worker(worker, "/readyz", WORKER_ANSWER_S)
        answer = msgspec.json.decode(body)
        reason = answer.get("reason") if isinstance(answer, dict) else None
        row |= {"ready": status == 200, "reason": str(reason or "")[:MAX_REASON_CHARS]}
        status, body = ask_worker(worker, "/metrics", WORKER_ANSWER_S)
        return row | (read_metrics(body.decode()) if status == 200 else {})
    except ANSWER_ERRORS as error:
        failure = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return row | {"error": f"this worker does not answer ({failure})"[:MAX_REASON_CHARS]}


def read_metrics(page: str) -> Row:
    row: Row = {"model": "", **dict.fromkeys(WORKER_METRICS.values(), 0.0)}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == "newsift_model_info":
                row["model"] = sample.labels.get("digest", "")[:MAX_REASON_CHARS]
            elif key := WORKER_METRICS.get(sample.name, ""):
                row[key] = max(row[key], sample.value)
    return row


class GroupState(NamedTuple):
    """The consumer group that reads the posts."""

    members: int
    partitions: int
    lag: int


class Problem(NamedTuple):
    text: str
    command: str  # that helps


@dataclass(frozen=True, slots=True)
class HealthSnapshot:
    broker_error: str  # why the broker does not answer, if so
    group: GroupState | None = None
    grows: bool = False
    workers: Sequence[Row] = ()
    refused_seeds: int = 0
    unread: Mapping[str, str] = field(default_factory=dict)  # what cannot be read, and why


def list_problems(snapshot: HealthSnapshot) -> list[Problem]:
    """Bounded single lines."""
    return [
        Problem(shorten(one_line(problem.text), MAX_PROBLEM_CHARS), problem.command)
        for problem in islice(_problems(snapshot), MAX_PROBLEMS)
    ]


def _problems(snapshot: HealthSnapshot) -> Iterator[Problem]:
    if snapshot.broker_error == NOT_YET:
        return
    if snapshot.broker_error:
        text = f"the broker does not answer: {snapshot.broker_error}"
        yield Problem(text, "newsift check")
        return
    if (group := snapshot.group) is not None:
        if not group.members:
            yield Problem("no worker runs, so nothing is matched", START)
        elif snapshot.grows:
            text = f"posts come faster than they are read: {group.lag:,} wait"
            if group.members < group.partitions:
                yield Problem(f"{text}; start another worker", START)
            else:
                text += "; each partition has a worker, so add partitions or faster machines"
                yield Problem(text, STATUS)
    yield from _worker_problems(snapshot.workers)
    if count := snapshot.refused_seeds:
        yield Problem(f"refused seeds, which match nothing: {count:,}", "newsift seeds list")
    for name, why in snapshot.unread.items():
        yield Problem(f"{name}: cannot be read: {why}", "newsift check")


def _worker_problems(rows: Sequence[Row]) -> Iterator[Problem]:
    workers = [row for row in rows if not row["error"]]
    for row in workers:
        worker = f"the worker at {row['address']}"
        if not row["ready"]:
            reason = row["reason"] or "it gives no reason"
            yield Problem(f"{worker} is not ready: {reason}", STATUS)
        if row.get("paused"):
            text = f"{worker} is paused: a topic does not take what it writes"
            yield Problem(text, "newsift topics check")
        if gap := row.get("offsets_lost"):
            text = f"{worker} lost {gap:,.0f} posts that were deleted before it read them"
            yield Problem(text, STATUS)
        if (row.get("open_transaction_s") or 0) > MAX_TRANSACTION_S:
            text = f"{worker} waits for a transaction that another producer left open; end that one"
            yield Problem(text, STATUS)
    if len({row["model"] for row in workers if row.get("model")}) > 1:
        yield Problem("workers run different models", "newsift config show")


def summarise(snapshot: HealthSnapshot) -> Row:
    """The strip on every page."""
    problems = list_problems(snapshot)
    facts, group = ["the broker answers"], snapshot.group
    if group is not None:
        facts += [plural(group.members, "worker"), f"{plural(group.lag, 'post')} to read"]
    if not snapshot.refused_seeds:
        facts.append("no refused seed")
    state = "bad" if problems else "good"
    if snapshot.broker_error:
        state, facts = "unknown" if snapshot.broker_error == NOT_YET else "bad", []
    return {
        "state": state,
        "facts": facts,
        "problems": [problem._asdict() for problem in problems],
    }


class HealthMonitor:
    def __init__(
        self, config: Config, unread: Callable[[], Mapping[str, str]],
        refused_seeds: Callable[[], int], on_change: Callable[[], None],
    ) -> None:  # fmt: skip
        """`unread` returns the topics that the desk cannot read, and why."""
        self._config, self._unread, self._refused_seeds = config, unread, refused_seeds
        self._viewers = ViewerPresence()
        self._lag_points: deque[tuple[float, int]] = deque(maxlen=MAX_LAG_POINTS)
        self._group = PolledValue("broker", self._read_group, self._viewers, on_change)
        cluster_id = partial(kafka_cluster_id, config)
        self._workers = PolledValue(
            "workers",
            lambda: query_workers(worker_addresses(config, cluster_id)),
            self._viewers,
            on_change,
        )
        self._lock, self._polling = Lock(), False

    def note_viewer(self) -> None:
        with self._lock:
            if not self._polling:
                self._polling = True
                self._group.start()
                self._workers.start()
        self._viewers.note()

    def stop(self) -> None:
        """May be called even if polling never started."""
        self._viewers.close()

    def summary(self) -> Row:
        error = self._group.error
        with self._lock:
            lags = list(self._lag_points)
        return summarise(
            HealthSnapshot(
                error,
                group=None if error else self._group.value,
                grows=not error and is_growing(lags),
                workers=self._workers.value or [],
                refused_seeds=self._refused_seeds(),
                unread=self._unread(),
            )
        )

    def _read_group(self) -> GroupState:
        with connected(self._config) as cluster, admin_client(self._config) as admin:
            cluster.partitions(self._config.topics.posts)
            lags = read_offsets(cluster, admin, self._config).lag
            members = describe_group(admin, self._config)[1]
        lag = sum(lags.values())
        with self._lock:
            self._lag_points.append((time.time(), lag))
        return GroupState(len(members), len(lags), lag)
