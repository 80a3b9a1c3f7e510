"""Training of event profiles from seeds, the stream and labels, and their publication."""

import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from heapq import nlargest
from typing import Any

import numpy as np
from numpy.typing import NDArray

from encoder.embeddings import Embeddings
from encoder.errors import InputError
from encoder.model.weights import F32
from newsift.operations.actor import creation_fields
from newsift.operations.deletions import DeletedPosts, has_content, read_deletions
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
from newsift.operations.times import now_ms
from newsift.statistics.background import text_hash
from newsift.statistics.feedback import (
    BACKGROUND_WEIGHT,
    MIN_ON_LABELS,
    AuthoredPosts,
    is_burst,
    learn,
)
from newsift.statistics.labels import Draw, Label, Verdict, joint_verdicts
from newsift.statistics.queues import ScoredPost, is_certify_post
from worker.kafka.reading import Offsets, TopicReader
from worker.match.links import linked_pairs
from worker.match.readers import PostMatcher
from worker.posts.compare import as_text
from worker.posts.outcome import Post
from worker.posts.times import HOUR_MS
from worker.seeds.profile import EventVector, Profile
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState, build_state
from worker.text import plural

MAX_COMPARED_POSTS = 5
MAX_POOL_POSTS = 1_000  # An event learns from 20 posts, and some may be copies.
MAX_COUNTED_TEXTS = 100_000
MIN_HISTORY_SHARE = 0.1  # With fewer posts before than a tenth, no burst can be seen.
FEW_LABELS = 10
MIN_ARTICLE_WORD_CHARS = 4  # shorter ones say little of an event
MIN_REPEATED = 3  # labelled posts of one text
WORD = re.compile(r"[^\W_]+")
MAX_SAFE_FACTOR = 3  # A profile that passes more than three times the posts is risky.


@dataclass
class Comparison:
    """The posts that match with two seed sets: before and after a new profile."""

    before: PostMatcher
    after: PostMatcher
    read: int = 0  # posts
    passes: list[int] = field(default_factory=lambda: [0, 0])
    new_matches: list[ScoredPost] = field(default_factory=list)  # the best
    lost_matches: list[ScoredPost] = field(default_factory=list)  # the best

    def add(self, posts: Sequence[Post], vectors: Embeddings) -> None:
        before, old_scores = match_posts(self.before, posts, vectors)
        passes, new_scores = match_posts(self.after, posts, vectors)
        self.read += len(posts)
        self.passes = [self.passes[0] + int(before.sum()), self.passes[1] + int(passes.sum())]
        self.new_matches = _best_posts(self.new_matches, posts, passes & ~before, new_scores)
        self.lost_matches = _best_posts(self.lost_matches, posts, before & ~passes, old_scores)


def match_posts(
    matcher: PostMatcher, posts: Sequence[Post], vectors: Embeddings
) -> tuple[NDArray[np.bool_], F32]:
    """Whether each post matches a seed, and its best score."""
    texts, times = [post.text for post in posts], np.zeros(len(posts), np.int64)
    pairs = matcher.match(texts, vectors, times).pairs
    return pairs.counts > 0, pairs.best


def links_to_seed(post: Post, seeds: SeedSet) -> bool:
    return bool(len(linked_pairs([post], seeds.links, np.zeros(1, np.int64))))


def _best_posts(
    before: Sequence[ScoredPost], posts: Sequence[Post], mask: NDArray[np.bool_], scores: F32
) -> list[ScoredPost]:
    """One of each text."""
    fresh = [ScoredPost(posts[n], float(scores[n])) for n in np.flatnonzero(mask).tolist()]
    by_text = {post.post.text: post for post in (*fresh, *before)}
    return nlargest(
        MAX_COMPARED_POSTS, by_text.values(), key=lambda post: (post.score, post.post.id)
    )


class PostPool:
    """The best posts of a stream by the mean of an event's seeds, which may train its profile.

    Bounded: of each author and of each group of copies only the best stays.
    """

    def __init__(self, mean: EventVector, empty: Embeddings, most: int = MAX_POOL_POSTS) -> None:
        self._mean, self._most, self._floor = mean, most, 0.0
        self.posts: list[Post] = []
        self.vectors = empty

    def add(self, posts: Sequence[Post], vectors: Embeddings) -> None:
        """Posts that certify never train."""
        scores = self._mean.scores(vectors)  # [n]
        high = np.flatnonzero(scores > self._floor).tolist()
        rows = [n for n in high if not is_certify_post((posts[n].platform, posts[n].id))]
        self.posts += [posts[n] for n in rows]
        more = vectors[rows]
        self.vectors = Embeddings.concat([self.vectors, more]) if len(self.vectors) else more
        if len(self.posts) <= 2 * self._most:
            return
        nothing = AuthoredPosts.anonymous(self.vectors[:0])
        best = self.with_authors.best(self._mean, self._most, nothing)
        self.posts = [self.posts[n] for n in best.tolist()]
        self.vectors = self.vectors[best]
        if len(best) == self._most:
            self._floor = float(self._mean.scores(self.vectors).min())

    @property
    def with_authors(self) -> AuthoredPosts:
        return _with_authors(self.posts, self.vectors)


def _with_authors(posts: Sequence[Post], vectors: Embeddings) -> AuthoredPosts:
    authors = [None if post.author is None else (post.platform, post.author) for post in posts]
    return AuthoredPosts(vectors, authors)


@dataclass
class MatchCounter:
    read: int = 0
    _texts: set[int] = field(default_factory=set)

    @property
    def matched(self) -> int:
        return len(self._texts)

    def add(self, read: int, matched: Iterable[str]) -> None:
        self.read += read
        for text in matched:
            key = text_hash(text)
            if key is not None and len(self._texts) < MAX_COUNTED_TEXTS:
                self._texts.add(key)


@dataclass
class TrainingData:
    """What a profile is trained on, besides the seeds and the background."""

    pool: PostPool | None = None
    now: MatchCounter = field(default_factory=MatchCounter)
    before: MatchCounter = field(default_factory=MatchCounter)
    on: Sequence[Post] = ()
    off: Sequence[Post] = ()

    def burst(self, attempt: int) -> bool | None:
        """Whether more posts match than before; None where there is too little history.

        All attempts together have the error rate of one test.
        """
        if self.before.read < MIN_HISTORY_SHARE * self.now.read or not self.now.read:
            return None
        share = self.now.read / (self.now.read + self.before.read)
        return is_burst(self.now.matched, self.before.matched, share, attempt * (attempt + 1))


class StreamWindow:
    """Posts since a time, and of as long a time before it; or all posts from `begin` on.

    Those that were deleted are left out.
    """

    def __init__(
        self, cluster: TopicReader, context: ModelContext, since: int, deleted: DeletedPosts,
        begin: Offsets | None = None,
    ) -> None:  # fmt: skip
        self._cluster, self._context, self._deleted = cluster, context, deleted
        self._topic, now = context.config.topics.posts, now_ms()
        self._begin = begin or cluster.offsets_at(self._topic, since)
        self._history = begin or cluster.offsets_at(self._topic, max(2 * since - now, 0))
        self._end = cluster.ends(self._topic)
        self._first, self._last = now, 0 if begin else since  # times of the posts

    @property
    def hours(self) -> float:
        """From the first post to the last."""
        return max(self._last - self._first, 0) / HOUR_MS

    def data(self, start: EventStart, seeds: SeedSet) -> TrainingData:
        """Posts that link to the page of a seed teach nothing."""
        pool = PostPool(start.vector, start.seeds[:0])
        data = TrainingData(pool)
        for posts, vectors in self._read(self._history, self._begin, seeds):
            _count_matches(data.before, start, posts, vectors)
        for posts, vectors in self._read(self._begin, self._end, seeds, with_times=True):
            _count_matches(data.now, start, posts, vectors)
            pool.add(posts, vectors)
        return data

    def compare(self, comparison: Comparison) -> None:
        for posts, vectors in self._read(self._begin, self._end, comparison.before.seeds):
            comparison.add(posts, vectors)

    def _read(
        self, start: Offsets, end: Offsets, seeds: SeedSet, with_times: bool = False
    ) -> Iterator[tuple[Sequence[Post], Embeddings]]:
        progress = ProgressLine()
        for batch in self._cluster.read(self._topic, start, end):
            if with_times:
                times = [message.timestamp for message in batch if message.timestamp > 0]
                self._first, self._last = min([self._first, *times]), max([self._last, *times])
            for posts, vectors in self._context.pipeline.posts_in(batch, seeds):
                rows = [n for n, post in enumerate(posts) if post.post_id not in self._deleted]
                yield [posts[n] for n in rows], vectors[rows]
            progress.add(len(batch), "posts")


def _count_matches(
    matches: MatchCounter, start: EventStart, posts: Sequence[Post], vectors: Embeddings
) -> None:
    """Matches are those of the seeds' mean."""
    over = start.vector.scores(vectors) >= np.float32(start.threshold)  # [n]
    matches.add(len(posts), (posts[n].text for n in np.flatnonzero(over).tolist()))


@dataclass(frozen=True, slots=True)
class Proposal:
    event: EventState
    profile: Profile
    value: bytes
    comparison: Comparison
    thresholds: tuple[tuple[float, ...], tuple[float, ...]]  # before and after
    background_rates: tuple[float, float]  # posts of 1,000 that pass, before and after
    hours: float  # that the stream took
    data: TrainingData

    @property
    def is_news(self) -> bool:
        old, new = self.event.profile, self.profile
        return old is None or (old.vectors, old.seeds) != (new.vectors, new.seeds)


def propose_profile(
    context: ModelContext, event: EventState, window: StreamWindow | None, labels: Iterable[Label],
    attempt: int,
) -> Proposal:  # fmt: skip
    old = [event.profile] if event.profile else []
    before = context.partial_seed_set(build_state([*event.seeds, *old]))
    start = context.start(event.seeds)
    data = TrainingData() if window is None else window.data(start, before)
    data.on, data.off = (
        [as_text(post, context.compare) for post in posts if not links_to_seed(post, before)]
        for posts in training_posts(labels)
    )
    profile = make_profile(context, event, data, creation_fields() | {"attempts": attempt})
    value = profile.value(context.config.limits)
    after = context.partial_seed_set(build_state([*event.seeds, profile]))
    comparison = Comparison(context.matcher(before), context.matcher(after))
    if window is not None:
        window.compare(comparison)
    old_thresholds, thresholds = (
        thresholds_by_event(seeds).get(event.name, ()) for seeds in (before, after)
    )
    old_share, share = (
        context.automatic.share_passing(seeds.embeddings, seeds.both_thresholds)
        for seeds in (before, after)
    )
    return Proposal(
        event, profile, value, comparison, (old_thresholds, thresholds),
        (1000 * old_share, 1000 * share), window.hours if window else 0.0, data,
    )  # fmt: skip


def make_profile(
    context: ModelContext, event: EventState, data: TrainingData, creation: dict[str, Any]
) -> Profile:
    """`creation` says when, by whom and at which attempt."""

    def embed(posts: Sequence[Post]) -> AuthoredPosts:
        return _with_authors(posts, context.enc.posts([post.text for post in posts]))

    start, pool = context.start(event.seeds), data.pool
    burst = data.burst(creation["attempts"]) if pool else None
    result = learn(
        start.seeds, context.automatic.background.read, embed(pool.posts) if pool else None,
        embed(data.on), embed(data.off), burst,
    )  # fmt: skip
    posts = [pool.posts[row] for row in result.posts.tolist()] if pool else []
    labels = [data.on[row] for row in result.on.tolist()]
    labels += [data.off[row] for row in result.off.tolist()]
    texts = [post.text for post in (*posts, *labels)]
    texts += [f"{seed.title}\n{seed.text}" for seed in event.seeds]
    gain, loss = moved_words(context.enc, start.vector, result.vector, texts)
    parts = {"posts": posts, "labels": labels}
    creation = creation | {
        "method": ", ".join(["seeds", "background", *(name for name in parts if parts[name])]),
        "beta": round(result.beta, 4),
        "gamma": BACKGROUND_WEIGHT,
        "cohesion": round(result.cohesion, 4),
        "posts": [[post.platform, post.id] for post in posts],
        "labels": len(labels),
        "gained": gain,
        "lost": loss,
        "burst": burst,
        "promises": promises_of(event.profile),
    }
    seeds = {seed.id: seed.version for seed in event.seeds}
    before = event.profile.history() if event.profile else ()
    vector = result.vector.encode()
    return Profile(event.name, vector, seeds, context.enc.digest, made=creation, before=before)


MEASURING_DRAWS: tuple[Draw, ...] = ("certify", "any")  # what they measure must not learn from them


def training_posts(labels: Iterable[Label]) -> tuple[list[Post], list[Post]]:
    """Labelled posts on the event and off it, which may train and on which people agree."""
    drawn = (label for label in labels if label.drawn not in MEASURING_DRAWS)
    training = [
        label for label in drawn if has_content(label.post) and not is_certify_post(label.post_id)
    ]
    posts = {label.post_id: label.post for label in training}
    verdicts = joint_verdicts(training)

    def with_verdict(verdict: Verdict) -> list[Post]:
        return [post for post_id, post in posts.items() if verdicts[post_id] == verdict]

    return with_verdict("on"), with_verdict("off")


@dataclass(frozen=True, slots=True)
class LearnOptions:
    name: str
    span: float | None  # seconds of the stream; None for no stream
    labels: bool
    begin: Offsets | None = None  # where the posts begin, in the place of the span


class ProfileTraining:
    def __init__(self, cluster: TopicReader, context: ModelContext, options: LearnOptions) -> None:
        self._cluster, self._context, self._options = cluster, context, options
        self._topic = SeedTopic(cluster, context.config)
        self._attempts = 0

    def propose(self) -> tuple[Proposal, ControlState]:
        """Also returns the state of the control topic."""
        events, state = read_events(self._topic, self._context)
        event = require_event(events, self._options.name).require_seeds()
        refuse_promised(event)
        self._attempts = max(self._attempts, attempts_of(event.profile))
        window, labels, config = None, list[Label](), self._context.config
        deleted = read_deletions(self._cluster, config)
        if self._options.span is not None:
            self._attempts += 1
            since = int((time.time() - self._options.span) * 1000)
            window = StreamWindow(
                self._cluster, self._context, max(since, 0), deleted, self._options.begin
            )
        if self._options.labels:
            stored = read_event_labels(self._cluster, config, event.name)
            labels = [label for label in stored if label.post_id not in deleted]
        return propose_profile(self._context, event, window, labels, self._attempts), state

    def publish(self, proposal: Proposal, state: ControlState) -> None:
        """Raises ConflictError if the profile has changed since `state`."""
        self._topic.publish({proposal.event.key: proposal.value}, state)
        event = read_events(self._topic, self._context)[0].get(proposal.event.name, proposal.event)
        if event.why:
            notify(f"the profile is {event.profile_status}, the seeds are used: {event.why}")


def read_events(
    topic: SeedTopic, context: ModelContext
) -> tuple[dict[str, EventState], ControlState]:
    state = topic.state()
    return events_of(state, context.seed_set(state)), state


def refuse_promised(event: EventState) -> None:
    """A promise holds for the vectors of its profile only."""
    if event.profile is not None and event.profile.promise is not None:
        renew = f"its profile is {event.profile_status} ({event.why}); undo that"
        raise InputError(
            f"event {event.name!r}: its threshold has a promise, which other vectors would break; "
            f"{renew if event.why else 'renew the promise'}, or give it up first (events forget)"
        )


def publication_risk(proposal: Proposal) -> str:
    """Why the profile should be checked before it is published, or ""."""
    data, creation = proposal.data, proposal.profile.made
    was, will = proposal.comparison.passes
    if will > MAX_SAFE_FACTOR * max(was, 1):
        return f"{will:,} posts would pass, and {was:,} do"
    if len(data.on) >= MIN_ON_LABELS:
        return ""
    if not creation["beta"]:
        return f"the best posts do not agree (cohesion {creation['cohesion']:.2f})"
    if creation["burst"] is None:
        return "too little history tells the event's posts from chance; label a few posts on it"
    return "" if creation["burst"] else "no more posts match than before; label a few posts on it"


def report_stream(proposal: Proposal) -> None:
    """Reports a stream that contributed little."""
    creation = proposal.profile.made
    if proposal.data.pool is None:
        return
    if not proposal.data.now.read:
        notify("the stream is silent: only the seeds, the background and labels are used")
    elif not creation["beta"]:
        problem = f"the best posts of the stream do not agree (cohesion {creation['cohesion']:.2f})"
        notify(f"{problem}: they are not used")
    elif creation["burst"] is None:
        notify("there is too little history to tell whether posts are more than before")
    elif not creation["burst"]:
        notify("no more posts match than before: what they say counts little")


def report_labels(proposal: Proposal) -> None:
    """Reports what makes a profile of labels doubtful, and words of the articles that lose.

    Without labels words of the text lose because everyday posts have them, too.
    """
    made, posts = proposal.profile.made, (*proposal.data.on, *proposal.data.off)
    texts = [seed.title for seed in proposal.event.seeds]
    if made["labels"]:
        texts += [seed.text for seed in proposal.event.seeds]
    words = set(WORD.findall(" ".join(texts).lower()))
    lost = [word for word, _ in made["lost"] if word.lower() in words]
    if lost := [word for word in lost if len(word) >= MIN_ARTICLE_WORD_CHARS]:
        notify(f"look: words of the article would count less: {', '.join(lost)}")
    if made["labels"] and made["labels"] < FEW_LABELS:
        notify(f"look: {plural(made['labels'], 'label')} alone, so each moves the profile much")
    copies = Counter(text_hash(post.text) for post in posts)
    if copies and (most := max(copies.values())) >= MIN_REPEATED and 4 * most > len(posts):
        notify(f"look: {most:,} of {len(posts):,} labelled posts say the same")


def previous_profile(profile: Profile | None) -> Profile | None:
    """The newest earlier version that can be read."""
    while profile is not None and profile.before:
        try:
            return profile.previous()
        except InputError:
            profile = replace(profile, before=profile.before[1:])
    return None


def proposal_row(proposal: Proposal, is_published: bool) -> dict[str, Any]:
    comparison = proposal.comparison

    def pair(values: Sequence[Any]) -> dict[str, Any]:
        return {"before": values[0], "after": values[1]}

    return {
        "event": proposal.event.name,
        "published": is_published,
        "version": proposal.profile.version,
        "threshold": pair([list(values) for values in proposal.thresholds]),
        "read": comparison.read,
        "hours": round(proposal.hours, 4),
        "passes": pair(comparison.passes),
        "per_1000_of_the_background": pair(proposal.background_rates),
        "new_matches": [_post_row(post) for post in comparison.new_matches],
        "lost_matches": [_post_row(post) for post in comparison.lost_matches],
        "made": proposal.profile.made,
    }


def _post_row(candidate: ScoredPost) -> dict[str, Any]:
    post, score = candidate.post, candidate.score
    return {"platform": post.platform, "id": post.id, "score": score, "text": post.text}
