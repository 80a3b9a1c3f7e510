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
from newsift.operations.actor import current_user
from newsift.operations.events import (
    EventState,
    attempts_of,
    events_of,
    promises_of,
    require_event,
    thresholds_by_event,
)
from newsift.operations.labels import read_event_labels
from newsift.operations.messages import ProgressLine, notify
from newsift.operations.model_context import EventStart, ModelContext, moved_words
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import now_ms, present
from newsift.statistics.background import text_hash
from newsift.statistics.feedback import (
    AWAY,
    ENOUGH_ON,
    AuthoredPosts,
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
    matches = Matcher(seeds, most=1).match(vectors, np.zeros(len(vectors), np.int64))
    return matches.counts > 0, matches.best


def _best(
    before: Sequence[Scored], posts: Sequence[Post], which: NDArray[np.bool_], scores: F32
) -> list[Scored]:
    """The best of those kept and of these posts, of each text one."""
    fresh = [Scored(posts[n], float(scores[n])) for n in np.flatnonzero(which).tolist()]
    by_text = {each.post.text: each for each in (*fresh, *before)}
    return nlargest(SHOWN, by_text.values(), key=lambda each: (each.score, each.post.id))


POOL_SIZE = 1_000  # posts; an event learns from twenty, of which some may say the same
MOST_COUNTED = 100_000  # matches, by what they say


def author_of(post: Post) -> Hashable | None:
    """Who wrote a post; None where its platform does not say."""
    return None if post.author is None else (post.platform, post.author)


class PostPool:
    """The best posts of a stream by the mean of an event's seeds, which may train its profile.

    Of each author and of each group of copies the best alone stays, whatever comes.
    """

    def __init__(self, by: EventVector, empty: Embeddings, most: int = POOL_SIZE) -> None:
        self._by, self._most, self._floor = by, most, 0.0
        self._none = AuthoredPosts.anonymous(empty)
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
    def voices(self) -> AuthoredPosts:
        """The posts as an event hears them."""
        return AuthoredPosts(self.vectors, [author_of(post) for post in self.posts])

    def _keep_the_best(self) -> None:
        best = self.voices.best(self._by, self._most, self._none)
        self.posts = [self.posts[n] for n in best.tolist()]
        self.vectors = self.vectors[best]
        if len(best) == self._most:
            self._floor = float(self._by.scores(self.vectors).min())


@dataclass
class MatchCounter:
    """How many posts of a time were read, and how many different ones matched."""

    read: int = 0
    _texts: set[int] = field(default_factory=set)

    @property
    def matched(self) -> int:
        """The posts that matched; those that say the same to the letter are one."""
        return len(self._texts)

    def add(self, read: int, matched: Iterable[str]) -> None:
        """Count some posts, and the texts of those that match."""
        self.read += read
        for text in matched:
            text_key = text_hash(text)
            if text_key is not None and len(self._texts) < MOST_COUNTED:
                self._texts.add(text_key)


ENOUGH_HISTORY = 0.1  # of the posts since: fewer before tell nothing of a burst


@dataclass
class TrainingData:
    """What there is to learn from besides the seeds and the background."""

    pool: PostPool | None = None
    now: MatchCounter = field(default_factory=MatchCounter)
    before: MatchCounter = field(default_factory=MatchCounter)
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


class StreamWindow:
    """The posts from a time on, and the time before that tells what is usual."""

    def __init__(self, cluster: TopicReader, context: ModelContext, since: int) -> None:
        self._cluster, self._context, self._since = cluster, context, since
        self._topic = context.config.topics.posts
        self._end: Offsets = cluster.ends(self._topic)
        self._now = now_ms()
        self.first, self.last = self._now, since  # when the posts in it came

    @property
    def hours(self) -> float:
        """How long the posts since then took to come."""
        return max(self.last - self.first, 0) / HOUR

    def data(self, start: EventStart) -> TrainingData:
        """What the window holds for an event that starts there."""
        data = TrainingData(PostPool(start.vector, start.seeds[:0]))
        previous_profile = self._cluster.at(self._topic, self._since)
        history = self._cluster.at(self._topic, max(2 * self._since - self._now, 0))
        for posts, vectors in self._read(history, previous_profile):
            _count(data.before, start, posts, vectors)
        for posts, vectors in self._read(previous_profile, self._end, timed=True):
            _count(data.now, start, posts, vectors)
            assert data.pool is not None
            data.pool.add(posts, vectors)
        return data

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
            yield from self._context.pipeline.posts_in(batch, self._context.no_seeds)
            progress.add(len(batch), "posts")


def _count(
    matches: MatchCounter, start: EventStart, posts: Sequence[Post], vectors: Embeddings
) -> None:
    """Count posts, and those that the seeds' mean matches."""
    over = start.vector.scores(vectors) >= np.float32(start.threshold)  # [n]
    matches.add(len(posts), (posts[n].text for n in np.flatnonzero(over).tolist()))


LabelledPosts = tuple[list[Post], list[Post]]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A profile that an event could get, and what would change."""

    event: EventState
    profile: Profile
    value: bytes
    comparison: Comparison
    cuts: tuple[tuple[float, ...], tuple[float, ...]]  # thresholds before and after
    of_background: tuple[float, float]  # posts of 1,000 that pass, before and after
    hours: float  # that the stream took
    data: TrainingData

    @property
    def is_news(self) -> bool:
        """Whether it differs from what is there."""
        old = self.event.profile
        same = old is not None and (old.vectors, old.seeds) == (
            self.profile.vectors,
            self.profile.seeds,
        )
        return not same


def propose_profile(
    context: ModelContext, event: EventState, window: StreamWindow | None, labels: LabelledPosts,
    attempt: int,
) -> Proposal:  # fmt: skip
    """What an event would learn from a window of the stream, if there is one, and from labels."""
    data = TrainingData() if window is None else window.data(context.start(event.seeds))
    data = replace(data, on=labels[0], off=labels[1])
    profile = make_profile(context, event, data, creation_fields() | {"attempts": attempt})
    value = profile.value(context.config.limits)
    old = [event.profile] if event.profile else []
    before = context.partial_seed_set(state_of([*event.seeds, *old]))
    after = context.partial_seed_set(state_of([*event.seeds, profile]))
    comparison = Comparison(before, after)
    if window is not None:
        window.compare(comparison)
    cuts = [thresholds_by_event(seeds).get(event.name, ()) for seeds in (before, after)]
    background = comparison.of_the_background(context.background)
    hours = window.hours if window else 0.0
    return Proposal(event, profile, value, comparison, (cuts[0], cuts[1]), background, hours, data)


def creation_fields() -> dict[str, Any]:
    """When and by whom a profile is made."""
    return {"at": present(), "by": current_user()}


def make_profile(
    context: ModelContext, event: EventState, data: TrainingData, made: dict[str, Any]
) -> Profile:
    """The profile that an event's seeds, the background and the training data make.

    `made` says when, by whom and at which attempt, for the record.
    """

    def with_authors(posts: Sequence[Post]) -> AuthoredPosts:
        vectors = context.enc.posts([post.text for post in posts])
        return AuthoredPosts(vectors, [author_of(post) for post in posts])

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


def training_posts(labels: Iterable[Label]) -> LabelledPosts:
    """The posts on the event and off it, as far as people agree, that may train its profile."""
    words_of: dict[PostId, set[str]] = defaultdict(set)
    posts: dict[PostId, Post] = {}
    for label in labels:
        if label.drawn != "certify" and not certifies_only(label.post_id):
            words_of[label.post_id].add(label.label)
            posts[label.post_id] = label.post
    on = [posts[post_id] for post_id, words in words_of.items() if words == {"on"}]
    off = [
        posts[post_id]
        for post_id, words in words_of.items()
        if words in ({"off"}, {"off", "unsure"})
    ]
    return on, off


TOO_MANY = 3  # times as many passes as before are not safe


@dataclass(frozen=True, slots=True)
class LearnOptions:
    """What an event is to learn from."""

    name: str
    span: float | None  # seconds of the stream; None for no stream
    labels: bool


class ProfileTraining:
    """Proposes profiles of an event, from what is on a cluster."""

    def __init__(self, cluster: TopicReader, context: ModelContext, options: LearnOptions) -> None:
        self._cluster, self._context, self._options = cluster, context, options
        self._topic = SeedTopic(cluster, context.config)
        self._attempts = 0

    def propose(self) -> tuple[Proposal, ControlState]:
        """What the event would learn now, and the state of the control topic that this is of."""
        events, state = read_events(self._topic, self._context)
        event = require_event(events, self._options.name).require_seeds()
        refuse_promised(event)
        self._attempts = max(self._attempts, attempts_of(event.profile))
        window, labels = None, training_posts([])
        if self._options.span is not None:
            self._attempts += 1
            since = int((time.time() - self._options.span) * 1000)
            window = StreamWindow(self._cluster, self._context, max(since, 0))
        if self._options.labels:
            labels = training_posts(
                read_event_labels(self._cluster, self._context.config, event.name)
            )
        proposal = propose_profile(self._context, event, window, labels, self._attempts)
        return proposal, state

    def publish(self, proposal: Proposal, state: ControlState) -> None:
        """Give the event a profile that was proposed of this state."""
        publish_profile(self._topic, state, self._context, proposal)


def publish_profile(
    topic: SeedTopic, state: ControlState, context: ModelContext, proposal: Proposal
) -> EventState:
    """Give an event this profile unless it has another than in the state; how it is then.

    Says so where the profile does not take effect.
    """
    topic.publish({proposal.event.key: proposal.value}, state)
    event = read_events(topic, context)[0].get(proposal.event.name, proposal.event)
    if event.why:
        notify(f"the profile is {event.state}, the seeds serve: {event.why}")
    return event


def read_events(
    topic: SeedTopic, context: ModelContext
) -> tuple[dict[str, EventState], ControlState]:
    """All events as they are now, and the state that they are of."""
    state = topic.state()
    return events_of(state, context.seed_set(state)), state


def refuse_promised(event: EventState) -> None:
    """Leave a profile alone that promises something: the promise is of these vectors."""
    if event.profile is not None and event.profile.promise is not None:
        raise InputError(
            f"event {event.name!r}: its threshold has a promise, which other vectors would break; "
            "renew the promise, or give it up first (events forget)"
        )


def publication_risk(proposal: Proposal) -> str:
    """Why nobody should publish a profile without a look at it; empty if it is safe."""
    data, made = proposal.data, proposal.profile.made
    was, will = proposal.comparison.passes
    if will > TOO_MANY * max(was, 1):
        return f"{will:,} posts would pass, and {was:,} do"
    if len(data.on) >= ENOUGH_ON:
        return ""
    if not made["beta"]:
        return f"the best posts do not agree (cohesion {made['cohesion']:.2f})"
    if made["burst"] is None:
        return "too little history tells the event's posts from chance; label a few posts on it"
    return "" if made["burst"] else "no more posts match than before; label a few posts on it"


def report_stream(proposal: Proposal) -> None:
    """Say what the stream was good for."""
    made = proposal.profile.made
    if proposal.data.pool is None:
        return
    if not proposal.data.now.read:
        notify("the stream is silent: only the seeds, the background and labels are used")
    elif not made["beta"]:
        problem = f"the best posts of the stream do not agree (cohesion {made['cohesion']:.2f})"
        notify(f"{problem}: they are not used")
    elif made["burst"] is None:
        notify("there is too little history to tell whether posts are more than before")
    elif not made["burst"]:
        notify("no more posts match than before: what they say counts little")


def restore_previous(
    topic: SeedTopic, state: ControlState, context: ModelContext, event: EventState
) -> EventState:
    """Give an event of this state the version of its profile before, or none; how it is then."""
    before = previous_profile(event.profile)
    topic.publish({event.key: before.value(context.config.limits) if before else None}, state)
    return read_events(topic, context)[0].get(event.name, EventState(event.name))


def previous_profile(profile: Profile | None) -> Profile | None:
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
