"""The count of an event's posts by the labels of a draw, for the page and as a file."""

from pathlib import Path

from encoder.errors import InputError
from newsift.desk.export import MAX_FILE_BYTES
from newsift.desk.mirrors import TopicMirrors
from newsift.desk.period import Period
from newsift.desk.threads import TimedCache
from newsift.operations.count_tables import frame_lines
from newsift.operations.counts import EventCount, EventPosts, estimate_count
from newsift.operations.messages import capture
from worker.config import Config
from worker.kafka.reading import TopicReader, connected

COUNT_TTL_S, COUNT_PATIENCE_S, MAX_COUNTS = 60.0, 30.0, 2  # a frame may take some 30 MB
Key = tuple[str, int, str, int]  # the event, its labels, when the newest was given, and the pass


class EventCounts:
    """Counts are made of the topic, and kept for a minute, or until a label comes."""

    def __init__(self, config: Config, mirrors: TopicMirrors, period: Period) -> None:
        self._config, self._mirrors, self._period = config, mirrors, period
        self._counts = TimedCache(
            self._compute, COUNT_TTL_S, MAX_COUNTS, patience_s=COUNT_PATIENCE_S
        )

    def count(self, event: str) -> tuple[EventCount, list[str]] | None:
        """With the messages of its making; None where nobody has labelled posts for it."""
        labels = self._mirrors.labels.event_labels(event)
        times = [label.at for label in labels if label.drawn == "count"]
        if not times:
            return None
        return self._counts.get((event, len(times), max(times), self._period.version))

    def write_frame(self, event: str, step: int, path: Path) -> None:
        counted = self.count(event)
        if counted is None:
            raise InputError("nobody has labelled posts for a count of this event yet")
        with path.open("wb") as out, connected(self._config) as cluster:
            for line in frame_lines(
                self._source(cluster, event), counted[0], step, unlabelled=True
            ):
                out.write(line.encode("utf-8", "replace"))
                if out.tell() > MAX_FILE_BYTES:
                    raise InputError(
                        f"export: has more than {MAX_FILE_BYTES >> 20} MiB; newsift estimate "
                        "--csv --all has no limit"
                    )

    def _compute(self, key: Key) -> tuple[EventCount, list[str]]:
        event, labels = key[0], self._mirrors.labels.event_labels(key[0])
        with capture() as messages, connected(self._config) as cluster:
            return estimate_count(self._source(cluster, event), labels), messages

    def _source(self, cluster: TopicReader, event: str) -> EventPosts:
        file = self._period.matched_file(self._config.topics.matches)
        return EventPosts(cluster, self._config, event, file)
