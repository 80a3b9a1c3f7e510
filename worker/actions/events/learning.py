"""An event learns: what it would, whether that is safe, and the way there and back."""

import time
from dataclasses import dataclass, replace

from encoder.errors import InputError
from worker.actions.events.event import KnownEvent, Values, events_in, the_event, values_of
from worker.actions.events.labelled import labels_of, training
from worker.actions.events.lesson import Proposal, proposed
from worker.actions.events.stream import Window
from worker.actions.events.teacher import Teacher, attempts_at
from worker.actions.seeds.topic import SeedTopic
from worker.actions.told import say
from worker.judge.feedback import ENOUGH_ON
from worker.kafka.reading import TopicReader
from worker.seeds.profile import Profile

TOO_MANY = 3  # times as many passes as before are not safe


@dataclass(frozen=True, slots=True)
class Learning:
    """What an event is to learn from."""

    name: str
    span: float | None  # seconds of the stream; None for no stream
    labels: bool


class School:
    """An event that learns, on a cluster."""

    def __init__(self, cluster: TopicReader, teacher: Teacher, learning: Learning) -> None:
        self._cluster, self._teacher, self._learning = cluster, teacher, learning
        self._topic = SeedTopic(cluster, teacher.config)
        self._attempts = 0

    def propose(self) -> Proposal:
        """What the event would learn now."""
        events, values = read_events(self._topic, self._teacher)
        event = the_event(events, self._learning.name).taught()
        refuse_promised(event)
        self._attempts = max(self._attempts, attempts_at(event.profile))
        window, labels = None, training([])
        if self._learning.span is not None:
            self._attempts += 1
            since = int((time.time() - self._learning.span) * 1000)
            window = Window(self._cluster, self._teacher, max(since, 0))
        if self._learning.labels:
            labels = training(labels_of(self._cluster, self._teacher.config, event.name))
        return proposed(self._teacher, event, values, window, labels, self._attempts)

    def publish(self, proposal: Proposal) -> None:
        """Give the event this profile, and say so where it is not in force."""
        self._topic.publish({proposal.event.key: proposal.value})
        event = read_events(self._topic, self._teacher)[0].get(proposal.event.name)
        if event and event.why:
            say(f"the profile is {event.state}, the seeds serve: {event.why}")


def read_events(topic: SeedTopic, teacher: Teacher) -> tuple[dict[str, KnownEvent], Values]:
    """All events as they are now, and the records that they are made of."""
    values = values_of(topic.latest())
    return events_in(values, teacher.seed_set(values), teacher.config.limits), values


def refuse_promised(event: KnownEvent) -> None:
    """Leave a profile alone that promises something: the promise is of these vectors."""
    if event.profile is not None and event.profile.promise is not None:
        raise InputError(
            f"event {event.name!r}: its threshold has a promise, which other vectors would break; "
            "renew the promise, or give it up first (events forget)"
        )


def unsafe(proposal: Proposal) -> str:
    """Why nobody should publish a profile without a look at it; empty if it is safe."""
    lesson, made = proposal.lesson, proposal.profile.made
    was, will = proposal.comparison.passes
    if will > TOO_MANY * max(was, 1):
        return f"{will:,} posts would pass, and {was:,} do"
    if len(lesson.on) >= ENOUGH_ON:
        return ""
    if not made["beta"]:
        return f"the best posts do not agree (cohesion {made['cohesion']:.2f})"
    if made["burst"] is None:
        return "too little history tells the event's posts from chance; label a few posts on it"
    return "" if made["burst"] else "no more posts match than before; label a few posts on it"


def comment(proposal: Proposal) -> None:
    """Say what the stream was good for."""
    made = proposal.profile.made
    if proposal.lesson.pool is None:
        return
    if not proposal.lesson.now.read:
        say("the stream is silent: only the seeds, the background and labels are used")
    elif not made["beta"]:
        said = f"the best posts of the stream do not agree (cohesion {made['cohesion']:.2f})"
        say(f"{said}: they are not used")
    elif made["burst"] is None:
        say("there is too little history to tell whether posts are more than before")
    elif not made["burst"]:
        say("no more posts match than before: what they say counts little")


def go_back(topic: SeedTopic, teacher: Teacher, event: KnownEvent) -> KnownEvent:
    """Give an event the version of its profile before, or none; how it is then."""
    before = earlier(event.profile)
    topic.publish({event.key: before.value(teacher.config.limits) if before else None})
    return read_events(topic, teacher)[0].get(event.name, KnownEvent(event.name))


def earlier(profile: Profile | None) -> Profile | None:
    """The newest version before that can be read."""
    while profile is not None and profile.before:
        try:
            return profile.previous()
        except InputError:
            profile = replace(profile, before=profile.before[1:])
    return None
