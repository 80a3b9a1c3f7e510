"""The labels of an event as the commands use them: those that train, and those that certify."""

from collections import defaultdict
from collections.abc import Iterable

from worker.actions.events.lesson import Labelled
from worker.actions.labels.topic import LabelTopic
from worker.config import Config
from worker.judge.draw import certifies_only
from worker.judge.labels import Label, PostId
from worker.kafka.reading import TopicReader
from worker.posts.outcome import Post


def labels_of(cluster: TopicReader, config: Config, event: str) -> tuple[Label, ...]:
    """What people said of an event's posts; nothing where there is no topic of labels yet."""
    if not cluster.exists(config.topics.labels):
        return ()
    return LabelTopic(cluster, config).book().of(event)


def training(labels: Iterable[Label]) -> Labelled:
    """The posts on the event and off it, as far as people agree, that may train its profile."""
    said: dict[PostId, set[str]] = defaultdict(set)
    posts: dict[PostId, Post] = {}
    for label in labels:
        if label.drawn != "certify" and not certifies_only(label.post_id):
            said[label.post_id].add(label.label)
            posts[label.post_id] = label.post
    on = [posts[post_id] for post_id, words in said.items() if words == {"on"}]
    off = [
        posts[post_id] for post_id, words in said.items() if words in ({"off"}, {"off", "unsure"})
    ]
    return on, off
