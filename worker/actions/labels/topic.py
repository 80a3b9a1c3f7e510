"""The topic of labels as the commands use it: the latest label per key, published and read back."""

from collections.abc import Iterator
from contextlib import contextmanager

from worker.actions.keyed import KeyedTopic
from worker.actions.told import say
from worker.config import Config
from worker.judge.labels import MOST_PAIRS, ROOM, SCHEMA, LabelBook
from worker.kafka.reading import TopicReader, connected
from worker.kafka.topics import ensure_labels

HEADERS = (("schema", SCHEMA.encode()),)
NAMED = 10  # refused labels that are told by their keys


class LabelTopic(KeyedTopic):
    """The latest label of every event, post and person, and a way to replace it."""

    def __init__(self, cluster: TopicReader, config: Config) -> None:
        super().__init__(cluster, config, config.topics.labels, "label", lambda _: HEADERS)

    def book(self) -> LabelBook:
        """All labels; those that cannot be used are told of."""
        book = LabelBook(self._config.limits)
        for batch in self.cluster.read(self._topic):
            for record in batch:
                book.apply(record.key, record.value)
        for refused in book.refused[:NAMED]:
            say(f"refused: {refused.key}: {refused.reason}")
        if (more := len(book.refused) - NAMED) > 0:
            say(f"{more:,} more labels are refused")
        if book.left_out:
            say(f"{book.left_out:,} labels are left out, of those who gave most: all may take "
                f"{ROOM:,} bytes, which up to {MOST_PAIRS:,} pairs of event and person share; name "
                "another topic in topics.labels")  # fmt: skip
        return book


@contextmanager
def writable(config: Config) -> Iterator[LabelTopic]:
    """The topic of labels, made if it is missing; one that may lose labels is told of."""
    make_label_topic(config)
    with label_topic(config) as topic:
        yield topic


def make_label_topic(config: Config) -> None:
    """Make the topic of labels if it is missing; one that may lose labels is told of."""
    for each in ensure_labels(config):
        if each.serious:
            say(f"{each.topic}: {each.setting} is {each.found}, must be {each.wanted}: {each.why}; "
                "see `newsift topics check`")  # fmt: skip


@contextmanager
def label_topic(config: Config) -> Iterator[LabelTopic]:
    """The topic of labels of a configuration; it has to exist."""
    with connected(config) as cluster:
        cluster.partitions(config.topics.labels)
        yield LabelTopic(cluster, config)
