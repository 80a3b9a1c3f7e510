"""Everything that the page of health shows, each part looked at by itself."""

import time
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from itertools import islice
from threading import Lock
from typing import Any

from worker.actions.workers import kafka_cluster_id, worker_addresses
from worker.config import Config
from worker.desk.following import Following
from worker.desk.health.broker import Broker, Group, grows, told
from worker.desk.health.letters import Letters
from worker.desk.health.part import NOT_YET, Eyes, Part
from worker.desk.health.words import Looked, Row, alerts_of, summary_of
from worker.desk.health.workers import asked_all
from worker.desk.known import Judged
from worker.posts.times import rfc3339
from worker.sources.known import known_collectors

TOPICS_S = 30.0  # between two looks at the topics' settings
LATELY_MS = 600_000
HOUR_MS = 3_600_000
MOST_COLLECTORS = 50


class Health:
    """Looks at the broker, the workers, the topics and the collectors while somebody does."""

    def __init__(
        self,
        config: Config,
        followed: Callable[[], Mapping[str, str]],
        labels: Callable[[], Judged],
        moved: Callable[[], None],
    ) -> None:
        """`followed` says of what the desk follows why it does not, if so."""
        self.config, self._followed, self._labels = config, followed, labels
        self._eyes, self._broker = Eyes(), Broker(config)
        self._group: Part[Group] = Part("broker", self._broker.look, self._eyes, moved)
        self._topics = Part("topics", self._broker.topics, self._eyes, moved, TOPICS_S)
        self._workers = Part("workers", self._ask_workers, self._eyes, moved)
        self._collectors = Part("collectors", _collectors, self._eyes, moved)
        self.letters = Letters(config)
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
        self._eyes.look()

    def _ask_workers(self) -> list[Row]:
        return asked_all(worker_addresses(self.config, partial(kafka_cluster_id, self.config)))

    def stop(self) -> None:
        """Look no more; harmless if nobody ever did."""
        self._eyes.close()
        self.of_letters.stop()

    def summary(self) -> Row:
        """The state of all in two words, and what to do."""
        return summary_of(self._looked())

    def drift(self) -> dict[str, str]:
        """What the workers say of each event's drift; empty where too little is known."""
        found: dict[str, str] = {}
        for row in self._looked().workers:
            for event, said in (row.get("events") or {}).items():
                found[event] = found.get(event) or said
        return found

    def bursts(self) -> Counter[str]:
        """In how many minutes each event had a burst of stories, since the workers began."""
        return sum((row.get("bursts") or Counter() for row in self._looked().workers), Counter())

    def told(self) -> dict[str, Any]:
        """All that was seen by the last looks."""
        looked = self._looked()
        return {
            "kafka": looked.kafka,
            "group": self.config.kafka.group,
            "alerts": alerts_of(looked),
            "broker": _state(self._group) | (looked.group or {}),
            "line": [[round(1000 * at), lag] for at, lag in self._broker.lags()],
            "workers": _state(self._workers) | {"rows": looked.workers},
            "topics": _state(self._topics) | {"rows": looked.topics},
            "collectors": _state(self._collectors) | {"rows": looked.collectors},
            "followed": [{"name": name, "away": why} for name, why in looked.followed.items()],
        }

    def _looked(self) -> Looked:
        group = self._group.answer
        lately = rfc3339(int(time.time() * 1000) - LATELY_MS)
        there, labels = not self._group.away, self._labels()
        return Looked(
            kafka=self.config.kafka.bootstrap_servers,
            away=self._group.away,
            group=told(group) if group and there else None,
            grows=there and grows(self._broker.lags()),
            workers=self._workers.answer or [],
            topics=(self._topics.answer or []) if not self._topics.away else [],
            collectors=self._collectors.answer or [],
            followed=self._followed(),
            rejected=self.letters.since(lately),
            labels_left_out=labels.book.left_out,
            labels_refused=len(labels.refused),
        )


def _collectors() -> list[Row]:
    """Those of this host, each with whether it was at work within the hour."""
    lately = rfc3339(int(time.time() * 1000) - HOUR_MS)
    rows = islice(known_collectors(), MOST_COLLECTORS)
    return [row | {"ran_lately": (row["saved_at"] or "") > lately} for row in rows]


def _state(part: Part[Any]) -> dict[str, Any]:
    """Whether a part is there, since when, and when it was last answered."""
    at = None if part.at is None else rfc3339(int(part.at * 1000))
    since = None if part.away == NOT_YET else rfc3339(int(part.since * 1000))
    return {"away": part.away, "since": since, "at": at}
