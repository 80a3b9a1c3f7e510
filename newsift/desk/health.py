"""Broker, workers, lag and seeds on every page: each problem with the command that helps."""

import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice, pairwise
from typing import NamedTuple

import msgspec
from kafka.errors import GroupAuthorizationFailedError

from newsift.desk.mirrors import TopicMirrors
from newsift.desk.threads import TimedCache, failure_text
from newsift.operations.cluster_status import Row, describe_group, group_errors, read_offsets
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

POLL_S = 5.0
MAX_LAG_POINTS = 30  # more than those of MIN_GROWTH_S
MAX_POINTS_INTERVAL_S = 30.0
MIN_GROWTH_S = 60.0  # A lag that grows for a shorter time is not a problem.
MAX_PROBLEMS, MAX_PROBLEM_CHARS = 50, 400
WORKER_ANSWER_S = 2.0
MAX_WORKER_REQUESTS = 8
MAX_REASON_CHARS = 300
STATUS, START = "newsift status", "faust -A worker worker"


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
        return row | {"ready": status == 200, "reason": str(reason or "")[:MAX_REASON_CHARS]}
    except ANSWER_ERRORS as error:
        failure = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return row | {"error": f"this worker does not answer ({failure})"[:MAX_REASON_CHARS]}


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
    if snapshot.broker_error:
        text = f"the broker does not answer: {snapshot.broker_error}"
        yield Problem(text, "newsift check")
        return
    if (group := snapshot.group) is not None:
        starting = any(not (row["ready"] or row["error"]) for row in snapshot.workers)
        if not (group.members or starting):
            yield Problem("no worker runs, so nothing is matched", START)
        elif group.members and snapshot.grows:
            text = f"posts come faster than they are read: {group.lag:,} wait"
            if group.members < group.partitions:
                yield Problem(f"{text}; start another worker", START)
            else:
                text += "; each partition has a worker, so add partitions or faster machines"
                yield Problem(text, STATUS)
    for row in snapshot.workers:
        if not (row["ready"] or row["error"]):
            reason = row["reason"] or "it gives no reason"
            yield Problem(f"the worker at {row['address']} is not ready: {reason}", STATUS)
    if count := snapshot.refused_seeds:
        yield Problem(f"refused seeds, which match nothing: {count:,}", "newsift seeds list")
    for name, why in snapshot.unread.items():
        yield Problem(f"{name}: cannot be read: {why}", "newsift check")


def summarise(snapshot: HealthSnapshot) -> Row:
    """The strip on every page."""
    problems, facts = list_problems(snapshot), list[str]()
    if not snapshot.broker_error:
        facts.append("the broker answers")
        if (group := snapshot.group) is not None:
            facts += [plural(group.members, "worker"), f"{plural(group.lag, 'post')} to read"]
        if not snapshot.refused_seeds:
            facts.append("no refused seed")
    return {
        "state": "bad" if problems else "good",
        "facts": facts,
        "problems": [problem._asdict() for problem in problems],
    }


class HealthMonitor:
    """What open pages ask for is read at most once in POLL_S."""

    def __init__(self, config: Config, mirrors: TopicMirrors) -> None:
        self._config, self._mirrors = config, mirrors
        self._lag_points: deque[tuple[float, int]] = deque(maxlen=MAX_LAG_POINTS)
        self._latest = TimedCache(self._read, POLL_S)

    def summary(self) -> Row:
        latest, refused = self._latest.get(None), len(self._mirrors.control.refused)
        unread = {**latest.unread, **self._mirrors.unread()}
        return summarise(replace(latest, unread=unread, refused_seeds=refused))

    def _read(self, _key: None) -> HealthSnapshot:
        config = self._config
        try:
            with (
                connected(config) as cluster,
                admin_client(config) as admin,
                group_errors(config),
            ):
                cluster.partitions(config.topics.posts)
                lags = read_offsets(cluster, admin, config).lag
                members = describe_group(admin, config)[1]
            workers = query_workers(worker_addresses(config, partial(kafka_cluster_id, config)))
        except Exception as error:  # noqa: BLE001 - it is logged and shown
            if isinstance(error.__cause__, GroupAuthorizationFailedError):
                return HealthSnapshot("", unread={config.kafka.group: str(error)})
            return HealthSnapshot(failure_text(error, "the broker cannot be asked"))
        group = GroupState(len(members), len(lags), sum(lags.values()))
        self._lag_points.append((time.time(), group.lag))
        return HealthSnapshot("", group, is_growing(self._lag_points), workers)
