"""What is wrong, and what to do about it, in words. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from newsift.operations.workers import TOO_FEW
from worker.text import one_line

NOT_YET = "it is not looked at yet"
START = "start one with: faust -A worker worker"
LONG_OPEN_S = 120.0
LONGEST = 400  # characters of a line
MOST = 50  # lines
AS_PROMISED = "none:"

WORKER_COUNTERS = (  # what a worker counts, whether it stands in the way of matches, and what to do
    ("paused", True, "is paused, as a topic does not take what it writes; see who leads it"),
    ("offsets_lost_total", True, "lost {:,.0f} posts that were deleted before it read them"),
    ("open_transaction_seconds", True, "waits for a transaction that another producer left open"),
    ("unreadable_batches_total", False, "passed over {:,.0f} unreadable batches of records"),
)

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that is not as it should be; serious, if it stands in the way of matches."""

    says: str
    serious: bool = True


@dataclass(frozen=True, slots=True)
class HealthSnapshot:
    """What was seen by the last looks; None where nothing is known."""

    kafka: str  # where the broker is
    away: str  # why it does not answer, if so
    group: Row | None
    grows: bool
    workers: Sequence[Row]
    topics: Sequence[Row]
    collectors: Sequence[Row]
    followed: Mapping[str, str]  # what the desk follows, and why it does not, if so
    rejected: int  # lately
    labels_left_out: int = 0
    labels_refused: int = 0


def alerts_of(snapshot: HealthSnapshot) -> list[Alert]:
    """All that one would want to know of, the serious first."""
    if snapshot.away == NOT_YET:
        return []
    if snapshot.away:
        return [Alert(_line(f"the broker does not answer: {snapshot.away}"))]
    every = [
        *_of_group(snapshot),
        *_of_workers(snapshot.workers),
        *_of_topics(snapshot),
        *_of_rest(snapshot),
    ]
    return sorted(every, key=lambda alert: not alert.serious)[:MOST]


def summary_of(snapshot: HealthSnapshot) -> Row:
    """The state of all in two words, for the head of every page."""
    alerts = alerts_of(snapshot)
    serious = sum(alert.serious for alert in alerts)
    if snapshot.away == NOT_YET:
        state, says = "unknown", "looking"
    elif snapshot.away:
        state, says = "bad", "broker away"
    elif snapshot.group is not None and not snapshot.group["all_members"]:
        state, says = "bad", "no worker"
    elif serious:
        state, says = "bad", f"{serious} thing{'s' * (serious > 1)} to mend"
    else:
        state, says = "good", "all well"
    return {"state": state, "says": says, "alerts": [asdict(alert) for alert in alerts]}


def _of_group(snapshot: HealthSnapshot) -> Iterator[Alert]:
    """Of the workers as the broker knows them."""
    if (group := snapshot.group) is None:
        return
    members, partitions = group["all_members"], group["all_partitions"]
    if not members:
        yield Alert(f"no worker runs, so nothing is matched; {START}")
        return
    if members > partitions:
        yield Alert(
            f"{members:,} workers share {partitions:,} partitions: some have nothing to do; add "
            "partitions to the topic of posts, or end a worker", False,
        )  # fmt: skip
    if snapshot.grows:
        yield Alert(
            f"posts come faster than they are read: {group['lag']:,} wait; start another worker, "
            f"up to {partitions:,} in all"
        )
    if not any(not row["away"] for row in snapshot.workers):
        yield Alert(
            "no worker's web server answers: near misses, drift and readiness are not shown; "
            "desk.workers names those that are not on this machine", False,
        )  # fmt: skip


def _of_workers(workers: Sequence[Row]) -> Iterator[Alert]:
    """Of what each worker says of itself, and of what they say together."""
    there = [row for row in workers if not row["away"]]
    for row in there:
        yield from _of_worker(row, f"the worker at {row['address']}")
    if refused := max((row.get("refused_seeds") or 0 for row in there), default=0):
        yield Alert(f"{refused:,} seeds are refused and match nothing; see Seeds for why", False)
    for name, what in (("seed_set", "filter by different seeds"), ("model", "run other models")):
        if len({row[name] for row in there if row.get(name)}) > 1:
            yield Alert(f"workers {what}; compare their configurations", name == "model")


def _of_worker(row: Row, where: str) -> Iterator[Alert]:
    if not row["ready"]:
        yield Alert(_line(f"{where} is not ready: {row['reason'] or 'it does not say why'}"))
    for name, serious, says in WORKER_COUNTERS:
        if (row.get(name) or 0) > (LONG_OPEN_S if name == "open_transaction_seconds" else 0):
            yield Alert(f"{where} {says.format(row[name])}", serious)
    drift = row.get("drift")
    if drift and drift != TOO_FEW and not drift.startswith(AS_PROMISED):
        yield Alert(_line(f"{where}: drift: {drift}"), False)


def _of_topics(snapshot: HealthSnapshot) -> Iterator[Alert]:
    for row in snapshot.topics:
        if row["serious"]:
            problem = f"{row['topic']}: {row['setting']} is {row['found']}, must be {row['wanted']}"
            yield Alert(_line(f"{problem}; {row['fix']}"))


def _of_rest(snapshot: HealthSnapshot) -> Iterator[Alert]:
    """Of collectors, of what the desk follows, and of what was rejected lately."""
    for row in snapshot.collectors:
        who = f"the collector of {row['source']}"
        if not row["running"] and row["ran_lately"]:
            yield Alert(_line(f"{who} ran within the hour and does not any more"), False)
        if gaps := row["gaps"]:
            advice = f"has missed posts for good, {gaps:,} times; say so where matches are used"
            yield Alert(_line(f"{who} {advice}"), False)
    for name, why in snapshot.followed.items():
        if why:
            yield Alert(_line(f"this desk waits for {name}: {why}"), False)
    if snapshot.labels_left_out:
        advice = "there is no room for them; see on Judge who gave so many, or change topics.labels"
        yield Alert(f"{snapshot.labels_left_out:,} labels are left out: {advice}")
    if snapshot.labels_refused:
        yield Alert(
            f"{snapshot.labels_refused:,} labels are refused, and count as not given", False
        )
    if snapshot.rejected:
        minutes = "in the last ten minutes; see the dead letters"
        yield Alert(f"{snapshot.rejected:,} messages were rejected {minutes}", False)


def _line(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= LONGEST else f"{line[: LONGEST - 1]}…"
