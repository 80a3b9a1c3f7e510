"""`newsift demo --desk`: the samples in the browser, with the labels of two judges."""

import os
import sys
import webbrowser
from collections.abc import Sequence, Set
from functools import partial
from threading import Event

from newsift.cli.desk import Access, serve
from newsift.cli.local import local_cluster
from newsift.cli.samples import SamplePost, as_deletion, as_message, read_articles, read_posts
from newsift.cli.services import ThreadService
from newsift.desk.session import Desk
from newsift.desk.site import announce
from newsift.operations.labels import LabelTopic
from newsift.operations.messages import notify
from newsift.operations.model_context import ModelContext
from newsift.operations.profile_training import LearnOptions, ProfileTraining
from newsift.operations.prune import Pruner
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_text
from newsift.statistics.labels import Label, Verdict
from worker.config import Config
from worker.kafka.reading import TopicReader, connected
from worker.kafka.sending import sending
from worker.kafka.topics import admin_client
from worker.posts.read import Post, read_post

JUDGE = "the samples"
SECOND_JUDGE = "a second reader"  # of every second post
PROVEN_EVENT = "ferry-fire"  # has posts enough for a promise
PROVEN_POSTS = "ferry-voices.jsonl"
POST_INTERVAL_S = PRUNE_INTERVAL_S = 1.0
DELETED_POST = 5  # on the dam, a post of Bluesky, whose author takes it back
DELETED_AFTER = 10  # posts of the second half


def show_desk(config: Config) -> None:
    posts = read_posts()
    past = [*posts[: len(posts) // 2], *read_posts(PROVEN_POSTS)]
    future = posts[len(posts) // 2 :]
    with local_cluster(config) as (local, worker):
        with connected(local) as cluster:
            articles = read_articles()
            SeedTopic(cluster, local).publish({name.encode(): a for name, a in articles.items()})
            LabelTopic(cluster, local).publish(labels_of(past, articles.keys()))
            learn(cluster, local)
        notify(
            "the samples arrive; two judges have read the first half; some twenty labels of yours, "
            f"on the page Judge of {PROVEN_EVENT}, prove a threshold"
        )
        publish = ThreadService(partial(publish_samples, local, past, future))
        services = worker, publish, ThreadService(partial(prune_deleted, local))
        serve(local, Access(), Desk(local), services, on_open=open_page)


def learn(cluster: TopicReader, config: Config) -> None:
    """The event's profile of its article and the background, which a promise needs."""
    training = ProfileTraining(
        cluster, ModelContext(config), LearnOptions(PROVEN_EVENT, span=None, labels=False)
    )
    proposal, state = training.propose()
    training.publish(proposal, state)


def labels_of(posts: Sequence[SamplePost], events: Set[str]) -> dict[bytes, bytes]:
    """The second judge is unsure of posts off an event that have its first word."""
    at, labels = now_text(), list[Label]()
    for sample in posts:
        if not isinstance(post := read_post(as_message(sample)), Post):
            continue
        for event in sorted(events):
            verdict: Verdict = "on" if sample.event == event else "off"
            labels.append(Label(verdict, event, post, JUDGE, at, "given"))
            if sample.id % 2 == 0:
                if verdict == "off" and event.split("-")[0] in post.text.lower():
                    verdict = "unsure"
                labels.append(Label(verdict, event, post, SECOND_JUDGE, at, "given"))
    return {label.key: label.value for label in labels}


def publish_samples(
    config: Config, past: Sequence[SamplePost], future: Sequence[SamplePost], end: Event
) -> None:
    """Publish the first posts at once, the others one by one; then one of them is deleted."""
    with sending(config) as outbox:
        for number, sample in enumerate([*past, *future]):
            if number >= len(past) and end.wait(POST_INTERVAL_S):
                return
            value = as_message(sample)
            reading = read_post(value)
            key = reading.id.encode() if isinstance(reading, Post) else None
            outbox.send(config.topics.posts, value, key)
            if number >= len(past):
                outbox.settle()
            if number == len(past) + DELETED_AFTER:
                outbox.send(config.topics.posts, as_deletion(DELETED_POST), None)
    end.wait()


def prune_deleted(config: Config, end: Event) -> None:
    """What `newsift prune --follow` does."""
    with connected(config) as cluster, admin_client(config) as admin, sending(config) as outbox:
        pruner = Pruner(cluster, admin, outbox, config)
        while not end.wait(PRUNE_INTERVAL_S):
            pruner.read_new()


def open_page(address: str) -> None:
    announce(address)
    if sys.platform == "darwin" or {"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys():
        webbrowser.open(address)
