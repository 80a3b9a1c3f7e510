"""What makes an event's profile: out of its seeds, the background, a stream and labels."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

import encoder
from encoder.embeddings import Embeddings
from worker.actions.events.event import KnownEvent, Values, book_of
from worker.actions.events.pool import Matches, Pool, author_of
from worker.actions.events.words import moved_words
from worker.config import Config
from worker.judge.feedback import (
    AWAY,
    Voices,
    is_burst,
    learn,
    mean,
    profile_threshold,
    vector_of,
)
from worker.match.assembly import assembled
from worker.posts.outcome import Post
from worker.seeds.profile import Profile
from worker.seeds.record import Seed
from worker.seeds.set import SeedSet
from worker.seeds.vectors import EventVector

ENOUGH_HISTORY = 0.1  # of the posts since: fewer before tell nothing of a burst
MOST_ATTEMPTS = 10**6


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


@dataclass(frozen=True, slots=True)
class Start:
    """Where an event starts from: its seeds' vectors, their mean, and where the mean matches."""

    seeds: Embeddings
    vector: EventVector
    threshold: float


class Teacher:
    """A model with its background, as the workers have it; from several threads."""

    def __init__(self, config: Config) -> None:
        chosen = config.model
        self.config = config
        self.enc = encoder.load(chosen.name, device=chosen.device, threads=chosen.threads)
        self.pipeline, self._embedder = assembled(self.enc, config)
        self._embedder_of_one = assembled(self.enc, config)[1]  # lest either forget what it knows
        self.background = self._embedder.background
        self.nothing = SeedSet.empty(self.enc)
        self._making = Lock()  # what makes sets of seeds keeps what it knows of them

    def seed_set(self, values: Values) -> SeedSet:
        """What a worker compares posts with that has read these records."""
        with self._making:
            return self._embedder.make(book_of(values, self.config.limits))

    def set_of_one(self, values: Values) -> SeedSet:
        """The same for the records of a few events."""
        with self._making:
            return self._embedder_of_one.make(book_of(values, self.config.limits))

    def start(self, seeds: Sequence[Seed]) -> Start:
        """Where these seeds start from."""
        rows = self.enc.articles([(seed.title, seed.text) for seed in seeds])
        vector = vector_of(mean(rows), rows)
        rate = self.config.matching.background_rate
        return Start(rows, vector, profile_threshold(vector, self.background, rate))

    def pool(self, start: Start) -> Pool:
        """An empty pool for an event that starts there."""
        return Pool(start.vector, start.seeds[:0])

    def taught(self, event: KnownEvent, lesson: Lesson, made: dict[str, Any]) -> Profile:
        """The profile that an event's seeds, the background and a lesson make.

        `made` says when, by whom and at which attempt, for the record.
        """
        start, pool = self.start(event.seeds), lesson.pool
        burst = lesson.burst(made["attempts"]) if pool else None
        on, off = self._voices(lesson.on), self._voices(lesson.off)
        voices = pool.voices if pool else None
        learned = learn(start.seeds, self.background, voices, on, off, burst)
        entered = [pool.posts[row] for row in learned.posts.tolist()] if pool else []
        labels = [lesson.on[row] for row in learned.on.tolist()]
        labels += [lesson.off[row] for row in learned.off.tolist()]
        texts = [post.text for post in (*entered, *labels)]
        texts += [f"{seed.title}\n{seed.text}" for seed in event.seeds]
        gained, lost = moved_words(self.enc, start.vector, learned.vector, texts)
        parts = {"posts": entered, "labels": labels}
        made = made | {
            "method": ", ".join(["seeds", "background", *(name for name in parts if parts[name])]),
            "beta": round(learned.beta, 4),
            "gamma": AWAY,
            "cohesion": round(learned.cohesion, 4),
            "posts": [[post.platform, post.id] for post in entered],
            "labels": len(labels),
            "gained": gained,
            "lost": lost,
            "burst": burst,
            "promises": promises_of(event.profile),
        }
        return self._profile(event, learned.vector, made)

    def _profile(self, event: KnownEvent, vector: EventVector, made: dict[str, Any]) -> Profile:
        seeds = {seed.id: seed.version for seed in event.seeds}
        before = event.profile.history() if event.profile else ()
        return Profile(
            event.name, vector.encoded(), seeds, self.enc.digest, made=made, before=before
        )

    def _voices(self, posts: Sequence[Post]) -> Voices:
        vectors = self.enc.posts([post.text for post in posts])
        return Voices(vectors, [author_of(post) for post in posts])


def attempts_at(profile: Profile | None) -> int:
    """How often an event has looked for a burst, by its profile's record."""
    return _counted("attempts", profile.made if profile else {})


def promises_of(profile: Profile | None) -> int:
    """How many versions of a profile were tested for a promise, by its record."""
    if profile is None:
        return 0
    known = [_counted("promises", profile.made)]
    for record in (profile.record(), *profile.before):
        promise = record.get("promise")
        known.append(_counted("version", promise if isinstance(promise, dict) else {}))
    return max(known)


def _counted(name: str, said: dict[str, Any]) -> int:
    """A count in what may be anybody's record."""
    found = said.get(name)
    return min(max(found, 0), MOST_ATTEMPTS) if type(found) is int else 0
