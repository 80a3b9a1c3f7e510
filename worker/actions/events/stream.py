"""The posts topic as an event reads it: from some time on to its end as it was when it began."""

import time
from collections.abc import Iterator, Sequence

import numpy as np

from encoder.embeddings import Embeddings
from worker.actions.events.compare import Comparison
from worker.actions.events.pool import Matches
from worker.actions.events.teacher import Lesson, Start, Teacher
from worker.actions.told import ProgressLine
from worker.kafka.reading import Offsets, TopicReader
from worker.posts.outcome import Post

HOUR = 3_600_000


class Window:
    """The posts from a time on, and the time before that tells what is usual."""

    def __init__(self, cluster: TopicReader, teacher: Teacher, since: int) -> None:
        self._cluster, self._teacher, self._since = cluster, teacher, since
        self._topic = teacher.config.topics.posts
        self._end: Offsets = cluster.ends(self._topic)
        self._now = int(time.time() * 1000)
        self.first, self.last = self._now, since  # when the posts in it came

    @property
    def hours(self) -> float:
        """How long the posts since then took to come."""
        return max(self.last - self.first, 0) / HOUR

    def lesson(self, start: Start) -> Lesson:
        """What the window holds for an event that starts there."""
        lesson = Lesson(self._teacher.pool(start))
        earlier = self._cluster.at(self._topic, self._since)
        history = self._cluster.at(self._topic, max(2 * self._since - self._now, 0))
        for posts, vectors in self._read(history, earlier):
            _count(lesson.before, start, posts, vectors)
        for posts, vectors in self._read(earlier, self._end, timed=True):
            _count(lesson.now, start, posts, vectors)
            assert lesson.pool is not None
            lesson.pool.add(posts, vectors)
        return lesson

    def compare(self, comparison: Comparison) -> None:
        """Pass the window by both sets of a comparison."""
        for posts, vectors in self._read(self._cluster.at(self._topic, self._since), self._end):
            comparison.add(posts, vectors)

    def _read(
        self, start: Offsets, end: Offsets, timed: bool = False
    ) -> Iterator[tuple[Sequence[Post], Embeddings]]:
        progress = ProgressLine()
        for batch in self._cluster.read(self._topic, start, end):
            if timed:
                times = [message.timestamp for message in batch if message.timestamp > 0]
                self.first, self.last = min([self.first, *times]), max([self.last, *times])
            yield from self._teacher.pipeline.posts_in(batch, self._teacher.nothing)
            progress.add(len(batch), "posts")


def _count(matches: Matches, start: Start, posts: Sequence[Post], vectors: Embeddings) -> None:
    """Count posts, and those that the seeds' mean matches."""
    over = start.vector.scores(vectors) >= np.float32(start.threshold)  # [n]
    matches.add(len(posts), (posts[n].text for n in np.flatnonzero(over).tolist()))
