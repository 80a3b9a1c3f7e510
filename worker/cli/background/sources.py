"""Where the posts of a background come from: a topic, in windows, or files from end to end."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from math import ceil
from pathlib import Path
from random import Random

from worker.config import Config
from worker.files.formats.columns import FileOptions
from worker.files.posts import FileMessages, checked, share_read
from worker.kafka.reading import Offsets, TopicReader, records_between
from worker.match.pipeline import read_safely
from worker.match.records import Message
from worker.posts.languages import Languages
from worker.posts.read import Reading

WINDOWS = 64  # of a partition
Found = tuple[int, Reading]  # when it was written, in milliseconds or 0, and what a message holds


@dataclass(frozen=True, slots=True)
class Source:
    """What is found, and which share of all there is was read once so many messages were."""

    found: Iterator[Found]
    share: Callable[[int], float]

    def __iter__(self) -> Iterator[Found]:
        return self.found


def topic_posts(cluster: TopicReader, config: Config, most: int) -> Source:
    """About so many messages of the posts topic, each offset that it holds as likely as others."""
    topic = config.topics.posts
    begins, ends = cluster.beginnings(topic), cluster.ends(topic)
    spans = rounds(begins, ends, most, Random())
    batches = (cluster.read(topic, *span) for span in spans)
    expected = max(min(most, records_between(begins, ends)), 1)
    return Source(_readings(chain.from_iterable(batches), config), lambda done: done / expected)


def file_posts(files: Sequence[Path], config: Config) -> Source:
    """The posts of files, one after the other."""
    inputs = checked(files, FileOptions(), config.limits)
    return Source(_posts_in(inputs, config), share_read(inputs))


def _posts_in(inputs: Sequence[FileMessages], config: Config) -> Iterator[Found]:
    batches = chain.from_iterable(inputs)
    langs = Languages.of(config.posts.langs)
    for message in chain.from_iterable(batches):
        if message.value:
            found = read_safely(message.value, "auto", config.limits, langs)
            yield message.timestamp, found
        else:
            yield message.timestamp, message.found


def _readings(batches: Iterable[Sequence[Message]], config: Config) -> Iterator[Found]:
    langs = Languages.of(config.posts.langs)
    for message in chain.from_iterable(batches):
        found = read_safely(message.value, config.posts.format, config.limits, langs)
        yield message.timestamp or 0, found


def rounds(
    begins: Offsets, ends: Offsets, most: int, random: Random
) -> Iterator[tuple[Offsets, Offsets]]:
    """Which offsets to read, a window of every partition at a time: so many in all, about."""
    share = most / max(sum(ends[n] - begins[n] for n in ends), 1)
    by_partition = [
        [(number, *window) for window in windows(begins[number], ends[number], share, random)]
        for number in ends
    ]
    for at_once in zip_longest(*by_partition):
        start, end = dict(ends), dict(ends)  # nothing of a partition that has no more windows
        for number, first, after in filter(None, at_once):
            start[number], end[number] = first, after
        yield start, end


def windows(begin: int, end: int, share: float, random: Random) -> Iterator[tuple[int, int]]:
    """Windows of a partition that hold this share of it, evenly apart, from a random place on."""
    size = end - begin
    step = max(1, ceil(size / WINDOWS), ceil(1 / share)) if share < 1 else max(1, size)
    width = max(1, round(step * min(share, 1)))
    shift = random.randrange(step) if width < step else step
    for start in range(begin + shift - step, end, step):
        low, high = max(start, begin), min(start + width, end)
        if low < high:
            yield low, high
