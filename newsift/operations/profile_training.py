"""Training of profiles from seeds, the stream and labels; comparison with before; publication."""

import time
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.errors import InputError
from encoder.model.weights import F32
from newsift.operations.actor import myself
from newsift.operations.events import (
    KnownEvent,
    attempts_at,
    events_of,
    promises_of,
    the_event,
    thresholds_by_event,
)
from newsift.operations.labels import labels_of
from newsift.operations.messages import ProgressLine, say
from newsift.operations.model_context import Start, Teacher, moved_words
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms, present
from newsift.statistics.background import place_of
from newsift.statistics.feedback import (
    AWAY,
    ENOUGH_ON,
    Voices,
    is_burst,
    learn,
)
from newsift.statistics.labels import Label
from newsift.statistics.queues import certifies_only
from worker.kafka.reading import Offsets, TopicReader
from worker.match.matcher import Matcher
from worker.posts.outcome import Post, PostId
from worker.seeds.background import sides_of
from worker.seeds.profile import EventVector, Profile
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState, state_of

SHOWN = 5


@dataclass(frozen=True, slots=True)
class Scored:
    """A post that comes or goes, and its score where it passes."""

    post: Post
    score: float


@dataclass
class Comparison:
    """Two sets of what posts are compared with, and how many posts pass each."""

    before: SeedSet
    after: SeedSet
    read: int = 0
    passes: list[int] = field(default_factory=lambda: [0, 0])
    come: list[Scored] = field(default_factory=list)
    go: list[Scored] = field(default_factory=list)

    def add(self, posts: Sequence[Post], vectors: Embeddings) -> None:
        """Look at some posts."""
        (was, scores), (will, later) = (passing(s, vectors) for s in (self.before, self.after))
        self.read += len(posts)
        self.passes = [self.passes[0] + int(was.sum()), self.passes[1] + int(will.sum())]
        self.come = _best(self.come, posts, will & ~was, later)
        self.go = _best(self.go, posts, was & ~will, scores)

    def of_the_background(self, background: Embeddings) -> tuple[float, float]:
        """How many of 1,000 background posts pass, before and after, of those not learned from."""
        posts = sides_of(background)[1]
        shares = (passing(seeds, posts)[0].mean() for seeds in (self.before, self.after))
        before, after = (1000 * float(share) for share in shares)
        return before, after


def passing(seeds: SeedSet, vectors: Embeddings) -> tuple[NDArray[np.bool_], F32]:
    """Which posts match at least one seed, and the best score of each."""
    found = Matcher(seeds, most=1).match(vectors, np.zeros(len(vectors), np.int64))
    return found.counts > 0, found.best


def _best(
    kept: Sequence[Scored], posts: Sequence[Post], which: NDArray[np.bool_], scores: F32
) -> list[Scored]:
    """The best of those kept and of these posts, of each text one."""
    fresh = [Scored(posts[n], float(scores[n])) for n in np.flatnonzero(which).tolist()]
    found = {each.post.text: each for each in (*fresh, *kept)}
    return nlargest(SHOWN, found.values(), key=lambda each: (each.score, each.post.id))


KEPT = 1_000  # posts; an event learns from twenty, of which some may say the same
MOST_COUNTED = 100_000  # matches, by what they say


def author_of(post: Post) -> Hashable | None:
    """Who wrote a post; None where its platform does not say."""
    return None if post.author is None else (post.platform, post.author)


class Pool:
    """The best posts of a stream by the mean of an event's seeds, which may train its profile.

    Of each author and of each group of copies the best alone stays, whatever comes.
    """

    def __init__(self, by: EventVector, empty: Embeddings, most: int = KEPT) -> None:
        self._by, self._most, self._floor = by, most, 0.0
        self._none = Voices.nobodys(empty)
        self.posts: list[Post] = []
        self.vectors = empty

    def add(self, posts: Sequence[Post], vectors: Embeddings) -> None:
        """Look at some posts; those that certify a threshold never train."""
        scores = self._by.scores(vectors)  # [n]
        high = np.flatnonzero(scores > self._floor).tolist()
        rows = [n for n in high if not certifies_only((posts[n].platform, posts[n].id))]
        self.posts += [posts[n] for n in rows]
        self.vectors = Embeddings.concat([self.vectors, vectors[rows]])
        if len(self.posts) > 2 * self._most:
            self._keep_the_best()

    @property
    def voices(self) -> Voices:
        """The posts as an event hears them."""
        return Voices(self.vectors, [author_of(post) for post in self.posts])

    def _keep_the_best(self) -> None:
        best = self.voices.best(self._by, self._most, self._none)
        self.posts = [self.posts[n] for n in best.tolist()]
        self.vectors = self.vectors[best]
        if len(best) == self._most:
            self._floor = float(self._by.scores(self.vectors).min())


@dataclass
class Matches:
    """How many posts of a time were read, and how many different ones matched."""

    read: int = 0
    _said: set[int] = field(default_factory=set)

    @property
    def matched(self) -> int:
        """The posts that matched; those that say the same to the letter are one."""
        return len(self._said)

    def add(self, read: int, matched: Iterable[str]) -> None:
        """Count some posts, and the texts of those that match."""
        self.read += read
        for text in matched:
            said = place_of(text)
            if said is not None and len(self._said) < MOST_COUNTED:
                self._said.add(said)


ENOUGH_HISTORY = 0.1  # of the posts since: fewer before tell nothing of a burst


@dataclass
class Lesson:
    """What there is to learn from besides the seeds and the background."""

    pool: Pool | None = None
    now: Matches = field(default_factory=Matches)
    before: Matches = field(default_factory=Matches)
    on: Sequence[Post] = ()
    off: Sequence[Post] = ()

    def burst(self, attempt: int) -> bool | None:
        """Whether more posts match than did before; None where too little is known of that.

        All attempts together take a silent stream for a burst as seldom as one may.
        """
        if self.before.read < ENOUGH_HISTORY * self.now.read or not self.now.read:
            return None
        share = self.now.read / (self.now.read + self.before.read)
        return is_burst(self.now.matched, self.before.matched, share, attempt * (attempt + 1))


HOUR = 3_600_000


class Window:
    """The posts from a time on, and the time before that tells what is usual."""

    def __init__(self, cluster: TopicReader, teacher: Teacher, since: int) -> None:
        self._cluster, self._teacher, self._since = cluster, teacher, since
        self._topic = teacher.config.topics.posts
        self._end: Offsets = cluster.ends(self._topic)
        self._now = now_ms()
        self.first, self.last = self._now, since  # when the posts in it came

    @property
    def hours(self) -> float:
        """How long the posts since then took to come."""
        return max(self.last - self.first, 0) / HOUR

    def lesson(self, start: Start) -> Lesson:
        """What the window holds for an event that starts there."""
        lesson = Lesson(Pool(start.vector, start.seeds[:0]))
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


Labelled = tuple[list[Post], list[Post]]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A profile that an event could get, and what would change."""

    event: KnownEvent
    profile: Profile
    value: bytes
    comparison: Comparison
    cuts: tuple[tuple[float, ...], tuple[float, ...]]  # thresholds before and after
    of_background: tuple[float, float]  # posts of 1,000 that pass, before and after
    hours: float  # that the stream took
    lesson: Lesson

    @property
    def is_news(self) -> bool:
        """Whether it differs from what is there."""
        old = self.event.profile
        same = old is not None and (old.vectors, old.seeds) == (
            self.profile.vectors,
            self.profile.seeds,
        )
        return not same


def proposed(
    teacher: Teacher, event: KnownEvent, window: Window | None, labels: Labelled, attempt: int
) -> Proposal:  # fmt: skip
    """What an event would learn from a window of the stream, if there is one, and from labels."""
    lesson = Lesson() if window is None else window.lesson(teacher.start(event.seeds))
    lesson = replace(lesson, on=labels[0], off=labels[1])
    profile = make_profile(teacher, event, lesson, made_now() | {"attempts": attempt})
    value = profile.value(teacher.config.limits)
    old = [event.profile] if event.profile else []
    before = teacher.set_of_one(state_of([*event.seeds, *old]))
    after = teacher.set_of_one(state_of([*event.seeds, profile]))
    comparison = Comparison(before, after)
    if window is not None:
        window.compare(comparison)
    cuts = [thresholds_by_event(seeds).get(event.name, ()) for seeds in (before, after)]
    background = comparison.of_the_background(teacher.background)
    hours = window.hours if window else 0.0
    return Proposal(
        event, profile, value, comparison, (cuts[0], cuts[1]), background, hours, lesson
    )


def made_now() -> dict[str, Any]:
    """When and by whom a profile is made."""
    return {"at": present(), "by": myself()}


def make_profile(
    context: Teacher, event: KnownEvent, data: Lesson, made: dict[str, Any]
) -> Profile:
    """The profile that an event's seeds, the background and the training data make.

    `made` says when, by whom and at which attempt, for the record.
    """

    def with_authors(posts: Sequence[Post]) -> Voices:
        vectors = context.enc.posts([post.text for post in posts])
        return Voices(vectors, [author_of(post) for post in posts])

    start, pool = context.start(event.seeds), data.pool
    burst = data.burst(made["attempts"]) if pool else None
    on, off = with_authors(data.on), with_authors(data.off)
    learned = learn(start.seeds, context.background, pool.voices if pool else None, on, off, burst)
    posts = [pool.posts[row] for row in learned.posts.tolist()] if pool else []
    labels = [data.on[row] for row in learned.on.tolist()]
    labels += [data.off[row] for row in learned.off.tolist()]
    texts = [post.text for post in (*posts, *labels)]
    texts += [f"{seed.title}\n{seed.text}" for seed in event.seeds]
    gained, lost = moved_words(context.enc, start.vector, learned.vector, texts)
    parts = {"posts": posts, "labels": labels}
    made = made | {
        "method": ", ".join(["seeds", "background", *(name for name in parts if parts[name])]),
        "beta": round(learned.beta, 4),
        "gamma": AWAY,
        "cohesion": round(learned.cohesion, 4),
        "posts": [[post.platform, post.id] for post in posts],
        "labels": len(labels),
        "gained": gained,
        "lost": lost,
        "burst": burst,
        "promises": promises_of(event.profile),
    }
    seeds = {seed.id: seed.version for seed in event.seeds}
    before = event.profile.history() if event.profile else ()
    vector = learned.vector.encoded()
    return Profile(event.name, vector, seeds, context.enc.digest, made=made, before=before)


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


TOO_MANY = 3  # times as many passes as before are not safe


@dataclass(frozen=True, slots=True)
class Learning:
    """What an event is to learn from."""

    name: str
    span: float | None  # seconds of the stream; None for no stream
    labels: bool


class ProfileTraining:
    """Proposes profiles of an event, from what is on a cluster."""

    def __init__(self, cluster: TopicReader, teacher: Teacher, learning: Learning) -> None:
        self._cluster, self._teacher, self._learning = cluster, teacher, learning
        self._topic = SeedTopic(cluster, teacher.config)
        self._attempts = 0

    def propose(self) -> tuple[Proposal, ControlState]:
        """What the event would learn now, and the state of the control topic that this is of."""
        events, state = read_events(self._topic, self._teacher)
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
        proposal = proposed(self._teacher, event, window, labels, self._attempts)
        return proposal, state

    def publish(self, proposal: Proposal, state: ControlState) -> None:
        """Give the event a profile that was proposed of this state."""
        publish_profile(self._topic, state, self._teacher, proposal)


def publish_profile(
    topic: SeedTopic, state: ControlState, teacher: Teacher, proposal: Proposal
) -> KnownEvent:
    """Give an event this profile unless it has another than in the state; how it is then.

    Says so where the profile does not take effect.
    """
    topic.publish({proposal.event.key: proposal.value}, state)
    event = read_events(topic, teacher)[0].get(proposal.event.name, proposal.event)
    if event.why:
        say(f"the profile is {event.state}, the seeds serve: {event.why}")
    return event


def read_events(topic: SeedTopic, teacher: Teacher) -> tuple[dict[str, KnownEvent], ControlState]:
    """All events as they are now, and the state that they are of."""
    state = topic.state()
    return events_of(state, teacher.seed_set(state)), state


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


def go_back(
    topic: SeedTopic, state: ControlState, teacher: Teacher, event: KnownEvent
) -> KnownEvent:
    """Give an event of this state the version of its profile before, or none; how it is then."""
    before = earlier(event.profile)
    topic.publish({event.key: before.value(teacher.config.limits) if before else None}, state)
    return read_events(topic, teacher)[0].get(event.name, KnownEvent(event.name))


def earlier(profile: Profile | None) -> Profile | None:
    """The newest version before that can be read."""
    while profile is not None and profile.before:
        try:
            return profile.previous()
        except InputError:
            profile = replace(profile, before=profile.before[1:])
    return None


def proposal_row(proposal: Proposal, published: bool) -> dict[str, Any]:
    """What an event would learn, as a row of JSON."""
    made = proposal.profile.made
    compared = proposal.comparison
    return {
        "event": proposal.event.name,
        "published": published,
        "version": proposal.profile.version,
        "threshold": {"before": list(proposal.cuts[0]), "after": list(proposal.cuts[1])},
        "read": compared.read,
        "hours": round(proposal.hours, 4),
        "passes": dict(zip(("before", "after"), compared.passes, strict=True)),
        "per_1000_of_the_background": dict(
            zip(("before", "after"), proposal.of_background, strict=True)
        ),
        "come": [_post_row(each) for each in compared.come],
        "go": [_post_row(each) for each in compared.go],
        "made": made,
    }


def _post_row(each: Scored) -> dict[str, Any]:
    post = each.post
    return {"platform": post.platform, "id": post.id, "score": each.score, "text": post.text}
