"""Files as the stream of a desk without Kafka.

After each change of articles all posts are published again, so that a new article is compared with
all of them. The matches before that pass are forgotten: what is shown is of the present articles.
"""

import time
from collections.abc import Callable, Sequence
from itertools import chain
from math import inf
from threading import Event, Lock
from typing import Literal

import msgspec
from msgspec.structs import replace

from newsift.desk.period import FilePeriod
from newsift.files.posts import FileMessages, share_read
from newsift.operations.cluster_status import read_offsets
from newsift.operations.messages import notify
from newsift.operations.times import now_ms
from newsift.operations.workers import read_seed_set
from newsift.statistics.queues import draw_from_all
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.sending import Outbox, sending
from worker.kafka.topics import admin_client
from worker.posts.outcome import Post, Rejected
from worker.seeds.state import ControlState

POLL_S = 0.2
REPORT_S = 0.5
BLOCK_POSTS = 20_000  # The worker's lag is read after each block.
MAX_SEEDS_WAIT_S = 600.0  # A thousand new articles are embedded in less.
MAX_WAITING_POSTS = 50_000  # The embedded broker holds unread posts in memory.


class FileProgress(msgspec.Struct, frozen=True):
    name: str
    # Waiting: for the first article; matching: all posts are read, and not yet compared.
    state: Literal["waiting", "reading", "matching", "matched"]
    posts: int = 0
    bad: int = 0  # rows that are not posts
    share: float = 0.0
    seconds_left: float | None = None


class PostFiles:
    """The files, the pass of their posts, and how far it is."""

    def __init__(self, inputs: Sequence[FileMessages]) -> None:
        self.inputs, self.period = inputs, FilePeriod()
        names = [file.name.rpartition("/")[2] for file in inputs]
        self.name = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"
        self.progress = FileProgress(self.name, "waiting")
        self._draw_lock = Lock()
        self._draw: tuple[str, int] | None = None  # the nonce, and how many posts at most
        self._drawn: tuple[list[Post], int] = [], 0

    def reopened(self) -> list[FileMessages]:
        """The files from their beginning, for another thread."""
        return [file.reopened() for file in self.inputs]

    def draw(self, nonce: str, most: int) -> tuple[list[Post], int]:
        """The first posts in the order of this draw, and the number of all; reads the files."""
        with self._draw_lock:
            if self._draw != (nonce, most):
                messages = chain.from_iterable(chain.from_iterable(self.reopened()))
                posts = (m.reading for m in messages if isinstance(m.reading, Post))
                self._drawn, self._draw = draw_from_all(posts, nonce, most), (nonce, most)
            return self._drawn


class FileStream:
    """Publishes the posts, in a thread of its own."""

    def __init__(
        self, config: Config, files: PostFiles, control: Callable[[], ControlState],
        on_change: Callable[[], None], seed_set: Callable[[], str | None] = lambda: None,
    ) -> None:  # fmt: skip
        """`seed_set` gives the digest of the seeds of `control`, or None if it never will."""
        self._config, self._files, self._period = config, files, files.period
        self._control = control
        self._seed_set = seed_set
        self._on_change, self._end = on_change, Event()
        self._share = share_read(files.inputs)
        self._has_reported_bad = False

    def run(self, end: Event) -> None:
        # Passes are told apart by the offset of their articles. Not by their digest: an article
        # that is removed and added again has the old one, and missed what was read in between.
        config, self._end = self._config, end
        with sending(config) as outbox, connected(config) as cluster, admin_client(config) as admin:

            def lag() -> int:
                return sum(read_offsets(cluster, admin, config).lag.values())

            while not end.wait(POLL_S):
                state = self._control()
                live = any(not seed.paused for seed in state.seeds.values())
                is_first = not self._period.version
                if (is_first and not live) or self._period.is_settled(state.offset):
                    continue
                if self._wait_for_seeds() and self._wait_for_worker(lag, 0):
                    self._begin(state, cluster, done=not live)
                    if live:
                        self._publish(outbox, cluster, lag)

    def _wait_for_seeds(self) -> bool:
        """Until the worker matches with the articles of this desk; False if it was stopped.

        It embeds new articles while it matches with the former ones, and posts that are published
        meanwhile would miss them. A worker may start later than the desk, or answer late.
        """
        ends_at = time.monotonic() + MAX_SEEDS_WAIT_S
        address = self._config.desk.workers or ""
        while (desk_set := self._seed_set()) is not None and time.monotonic() < ends_at:
            if read_seed_set(address) == desk_set:
                break
            if self._end.wait(POLL_S):
                return False
        return True

    def _begin(self, state: ControlState, cluster: TopicReader, done: bool) -> None:
        """No post of an earlier pass is left to match; without live articles none will match."""
        topics, latest = self._config.topics, self._period.latest
        begin = {topic: cluster.ends(topic) for topic in (topics.posts, topics.matches)}
        self._period.latest = replace(
            latest, version=latest.version + 1, control_offset=state.offset, begin=begin, done=done
        )
        self._on_change()

    def _publish(self, outbox: Outbox, cluster: TopicReader, lag: Callable[[], int]) -> None:
        """Ends early if it was stopped, or the articles have changed."""
        began = last_report = time.monotonic()
        latest, posts, bad = self._period.latest, 0, 0
        first, last, now = inf, 0, now_ms()
        for message in chain.from_iterable(chain.from_iterable(self._files.inputs)):
            if isinstance(message.reading, Rejected):
                bad += 1
            elif message.value:
                at = min(max(message.timestamp, 0), now)  # a broker refuses what is of the future
                outbox.send(self._config.topics.posts, message.value, message.key, at=at)
                posts += 1
                first, last = min(first, at or inf), max(last, at)
                if posts % BLOCK_POSTS == 0:
                    outbox.settle()
                    if not self._wait_for_worker(lag, MAX_WAITING_POSTS):
                        return
            if (now_s := time.monotonic()) - last_report > REPORT_S:
                if self._end.is_set() or self._control().offset != latest.control_offset:
                    return
                last_report, share = now_s, self._share(None)
                left = (now_s - began) * (1 - share) / share if share else None
                self._report(FileProgress(self._files.name, "reading", posts, bad, share, left))
        outbox.settle()
        if bad and not self._has_reported_bad:
            self._has_reported_bad = True
            notify(f"{self._files.name}: rows left out, as they could not be read: {bad:,}")
        times = {"first": int(first) if last else 0, "last": last}
        self._period.latest = replace(latest, posts=posts, **times)
        self._report(FileProgress(self._files.name, "matching", posts, bad, 1.0))
        if self._wait_for_worker(lag, 0):
            end = cluster.ends(self._config.topics.matches)
            self._period.latest = replace(self._period.latest, matches_end=end, done=True)
            self._report(FileProgress(self._files.name, "matched", posts, bad, 1.0))

    def _wait_for_worker(self, lag: Callable[[], int], most: int) -> bool:
        """Until it has at most so many posts to match; False if it was stopped."""
        while lag() > most:
            if self._end.wait(POLL_S):
                return False
        return True

    def _report(self, progress: FileProgress) -> None:
        self._files.progress = progress
        self._on_change()
