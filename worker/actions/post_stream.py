"""How many posts came lately: of the last day, or since the first post where that is shorter."""

from dataclasses import dataclass

from worker.judge.passing import HOUR, an_hour
from worker.kafka.reading import Offsets, TopicReader, records_between

DAY = 24 * HOUR


@dataclass(frozen=True, slots=True)
class Stream:
    """How many posts came in the last day, since the first of them, and in the last hour."""

    posts: int = 0
    since: int = 0  # milliseconds
    now: int = 0
    last_hour: int = 0
    why: str = ""  # nothing is known of it

    @property
    def hourly(self) -> float:
        """Posts an hour."""
        return an_hour(self.posts, self.since, self.now) or 0.0


def stream_of(cluster: TopicReader, topic: str, now: int) -> Stream:
    """How many posts have come to a topic by now."""
    day, end = cluster.at(topic, now - DAY), cluster.ends(topic)
    last_hour = records_between(cluster.at(topic, now - HOUR), end)
    return Stream(records_between(day, end), _first(cluster, topic, day, end, now), now, last_hour)


def _first(cluster: TopicReader, topic: str, start: Offsets, end: Offsets, now: int) -> int:
    """When the first post since then came, by one record of each partition."""
    one = {part: min(start[part] + 1, end[part]) for part in end}
    times = [m.timestamp for batch in cluster.read(topic, start, one) for m in batch]
    return max(min([now, *(at for at in times if at > 0)]), now - DAY)
