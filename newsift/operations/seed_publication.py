"""Publishes seeds, with a preview of what they would have matched in the last 24 hours.

Where there are more posts than are read, blocks of them from all over that time stand for all.
"""

import random
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from encoder.errors import NewsiftError
from newsift.files.rows import read_match
from newsift.operations.messages import ProgressLine, notify
from newsift.operations.model_context import ModelContext, draft_thresholds, load_context
from newsift.operations.seed_drafts import SeedDraft
from newsift.operations.seed_rows import AutoThresholds, seed_fields
from newsift.operations.seed_topic import SeedTopic
from newsift.operations.times import present
from newsift.statistics.background import text_hash
from worker.config import Config
from worker.kafka.reading import Offsets, StoredMessage, TopicReader
from worker.match.pipeline import Outcome
from worker.match.records import MatchRecord
from worker.seeds.record import PREFIX, Seed
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState

ENOUGH = 2  # seeds: the mean of one is no better than itself
FEW = 3  # with fewer an event finds about half as many posts


@dataclass(slots=True)
class EventSeeds:
    """How many seeds an event has, and whether somebody made a profile of them."""

    seeds: int = 0
    others: int = 0  # than those that were added now
    has_profile: bool = False

    @property
    def may_learn(self) -> bool:
        """Whether one profile of its seeds would tell more than they do."""
        return self.seeds >= ENOUGH and not self.has_profile

    @property
    def is_thin(self) -> bool:
        """Whether more articles would find many more posts."""
        return self.seeds < FEW and not self.has_profile


def event_seeds(state: ControlState, added: Sequence[Seed]) -> Mapping[str, EventSeeds]:
    """What there is of the events that these seeds are about, by name."""
    events: dict[str, EventSeeds] = defaultdict(EventSeeds)
    ids = {seed.id for seed in added}
    for seed in state.seeds.values():
        if not seed.paused:
            events[seed.event].seeds += 1
            events[seed.event].others += seed.id not in ids
    refused = (each.id for each in state.refused.values() if each.id.startswith(PREFIX))
    for name in (*state.profiles, *(name.removeprefix(PREFIX) for name in refused)):
        events[name].has_profile = True
    return {name: events[name] for name in sorted({seed.event for seed in added})}


HOURS = 24
BLOCKS = 10
BEST = 5  # posts that are shown of an event


@dataclass(frozen=True, slots=True)
class PreviewLimits:
    """How much is read at most, and for how long."""

    posts: int
    seconds: float


AT_TERMINAL = PreviewLimits(20_000, 5.0)
IN_A_SCRIPT = PreviewLimits(5_000, 2.0)


@dataclass
class EventPreview:
    """What an event would have matched."""

    matched: int = 0
    gained: int = 0  # posts that only what was added matches
    best: dict[int, tuple[float, str]] = field(default_factory=dict)  # by what the posts say

    def add(self, score: float, text: str, gained: bool) -> None:
        """Count a post, and keep it if it is among the best that say something of their own."""
        self.matched += 1
        self.gained += gained
        key = text_hash(text) or 0
        self.best[key] = max(self.best.get(key, (score, text)), (score, text))
        if len(self.best) > BEST:
            del self.best[min(self.best, key=lambda place: self.best[place])]

    @property
    def shown(self) -> list[tuple[float, str]]:
        """The best posts, the best first."""
        return sorted(self.best.values(), reverse=True)


@dataclass
class Preview:
    """What was read, out of how much, and what of it each event would have matched."""

    there: int = 0
    posts: int = 0
    is_whole: bool = True  # all that was there was read
    events: dict[str, EventPreview] = field(default_factory=dict)

    def add(self, outcome: Outcome, added: Set[str]) -> None:
        """Take over what came of a batch."""
        self.posts += outcome.read - outcome.passed_over.total() - outcome.rejected.total()
        for record in outcome.records:
            if record.kind == "match" and (match_record := read_match(record.value)):
                self._match(match_record, added)

    def _match(self, record: MatchRecord, added: Set[str]) -> None:
        by_event: dict[str, list[tuple[float, str]]] = {}
        for match in record.matches:
            by_event.setdefault(match.event, []).append((match.score, match.seed_id))
        for event, by in by_event.items():
            gained = all(seed in added for _, seed in by)
            self.events.setdefault(event, EventPreview()).add(max(by)[0], record.post.text, gained)


def preview_seeds(
    cluster: TopicReader,
    context: ModelContext,
    seeds: SeedSet,
    added: Set[str],
    limits: PreviewLimits,
) -> Preview:
    """What these seeds would have matched, and what of it by the added ones alone."""
    topic = context.config.topics.posts
    preview, progress = Preview(), ProgressLine()
    if not cluster.exists(topic):
        return preview
    since = int(time.time() - HOURS * 3600) * 1000
    start, end = cluster.at(topic, since), cluster.ends(topic)
    preview.there = sum(end[place] - start[place] for place in end)
    parts, until = sample_spans(start, end, limits.posts), time.monotonic() + limits.seconds
    reached = {place: start[place] for place in end}
    for batch in _batches(cluster, topic, parts, until):
        late = [message for message in batch if message.timestamp >= since]
        preview.add(context.pipeline.run(late, seeds, present), added)
        progress.add(len(batch), "posts of the last 24 hours read")
        reached |= {message.partition: message.offset + 1 for message in batch}
    preview.is_whole = len(parts) <= 1 and (reached == end or time.monotonic() <= until)
    return preview


def _batches(
    cluster: TopicReader, topic: str, parts: Sequence[tuple[Offsets, Offsets]], until: float
) -> Iterator[Sequence[StoredMessage]]:
    for start, end in parts:
        for batch in cluster.read(topic, start, end, until):
            yield batch
            if time.monotonic() > until:
                return


def sample_spans(
    start: Mapping[int, int], end: Mapping[int, int], most: int
) -> list[tuple[Offsets, Offsets]]:
    """From where to where to read so many posts: all, or blocks from all over, in a mixed order.

    Mixed, so that what time is left for is from all over too; always the same way.
    """
    there = sum(end[place] - start[place] for place in end)
    if there <= most:
        return [(dict(start), dict(end))] if there else []
    size = most // BLOCKS
    blocks = [_block(start, end, n * there // BLOCKS, size) for n in range(BLOCKS)]
    random.Random(0).shuffle(blocks)
    return blocks


def _block(
    start: Mapping[int, int], end: Mapping[int, int], at: int, size: int
) -> tuple[Offsets, Offsets]:
    """A block that begins at this place of all partitions laid end to end, within one of them."""
    for place in sorted(end):
        length = end[place] - start[place]
        if at < length:
            first = start[place] + min(at, max(length - size, 0))
            return {**end, place: first}, {**end, place: min(first + size, end[place])}
        at -= length
    return dict(end), dict(end)


def preview_published(
    topic: SeedTopic,
    context: ModelContext,
    state: ControlState,
    added: Sequence[Seed],
    limits: PreviewLimits,
) -> Preview | None:
    """What the events of the seeds that were added would have matched.

    The seeds stand published: what comes in the way of this is said, and no matter.
    """
    try:
        seeds = context.partial_seed_set(state.of_events({seed.event for seed in added}))
        ids = {seed.id for seed in added}
        return preview_seeds(topic.cluster, context, seeds, ids, limits)
    except NewsiftError as error:
        notify(f"published; what would have matched is not told: {error}")
        return None


def preview_row(preview: Preview, event: str) -> dict[str, Any]:
    """The same as JSON."""
    of_event = preview.events.get(event, EventPreview())
    best = [{"score": score, "text": text} for score, text in of_event.shown]
    counts = {"posts": preview.posts, "there": preview.there, "whole": preview.is_whole}
    counts |= {"matched": of_event.matched, "gained": of_event.gained}
    return {"hours": HOURS, **counts, "best": best}


def draft_status(draft: SeedDraft, before: ControlState) -> str:
    """What a draft is beside the records before it."""
    there = before.value(draft.key)
    return "new" if there is None else "unchanged" if there == draft.value else "replaced"


class Publication:
    """Seeds that are published together; a model is loaded only for a preview."""

    def __init__(
        self, topic: SeedTopic, config: Config, drafts: Sequence[SeedDraft],
        seeds: Sequence[Seed], preview: bool,
    ) -> None:  # fmt: skip
        self._topic, self._config, self._drafts, self._seeds = topic, config, drafts, seeds
        self.before = self._after = topic.state()
        self._context: ModelContext | None = None
        self.auto: AutoThresholds = {}
        if preview:
            self._look_at()

    @property
    def pairs(self) -> list[tuple[SeedDraft, Seed]]:
        """The drafts with the seeds that they are."""
        return list(zip(self._drafts, self._seeds, strict=True))

    def publish(self) -> None:
        """Publish all of them, and read the topic back."""
        self._topic.publish({draft.key: draft.value for draft in self._drafts}, self.before)
        self._after = self._topic.state()
        self.events = event_seeds(self._after, self._seeds)

    def status(self, draft: SeedDraft) -> str:
        """What a draft is beside the record before it."""
        return draft_status(draft, self.before)

    def preview_published(self, limits: PreviewLimits) -> Preview | None:
        """What the events would have matched, once all is published; None without a preview."""
        if self._context is None:
            return None
        return preview_published(self._topic, self._context, self._after, self._seeds, limits)

    def row(self, draft: SeedDraft, seed: Seed, preview: Preview | None) -> dict[str, Any]:
        """What was published, and what would have matched, as JSON."""
        row = seed_fields(seed) | {"published": self.status(draft)}
        if seed.id in self.auto and seed.threshold is None:
            row["auto_threshold"] = self.auto[seed.id]
        return row | ({"preview": preview_row(preview, seed.event)} if preview else {})

    def _look_at(self) -> None:
        self._context = load_context(self._config)
        if self._context is not None:
            self.auto = draft_thresholds(self._context, self._drafts)
