"""What the scores need from elsewhere: near misses from the workers, and how many posts come."""

import time
from dataclasses import dataclass
from functools import partial

from encoder.errors import NewsiftError
from worker.actions.labels.near import near_answers
from worker.actions.post_stream import DAY, Stream, stream_of
from worker.actions.told import listening
from worker.actions.workers import kafka_cluster_id
from worker.config import Config
from worker.desk.fresh import Fresh
from worker.errors import BrokerError
from worker.judge.passing import HOUR
from worker.judge.reservoir import NearAnswer
from worker.kafka.reading import connected

__all__ = ["DAY", "HOUR", "Near", "Outside", "Stream", "stream_of"]

NEAR_S, STREAM_S = 10.0, 60.0  # that an answer is good for


@dataclass(frozen=True, slots=True)
class Near:
    """What the workers tell of an event, and of which workers nothing is known."""

    answers: tuple[NearAnswer, ...]
    told: tuple[str, ...]


class Outside:
    """Both, asked now and then however many pages are open."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._near: Fresh[str, Near] = Fresh(self._ask_near, NEAR_S)
        self._stream: Fresh[str, Stream] = Fresh(self._ask_stream, STREAM_S)

    def near(self, event: str) -> Near:
        """The near misses of an event."""
        try:
            return self._near.of(event)
        except BrokerError as error:  # another page asks just now, and waits
            return Near((), (str(error),))

    def stream(self) -> Stream:
        """How many posts come."""
        try:
            return self._stream.of(self._config.topics.posts)
        except BrokerError as error:
            return Stream(why=str(error))

    def _ask_near(self, event: str) -> Near:
        with listening() as told:
            answers = near_answers(self._config, event, partial(kafka_cluster_id, self._config))
        return Near(tuple(answers), tuple(told))

    def _ask_stream(self, topic: str) -> Stream:
        try:
            with connected(self._config) as cluster:
                return stream_of(cluster, topic, int(time.time() * 1000))
        except NewsiftError as error:
            return Stream(why=str(error))
