"""Previews of the posts that seeds would have matched in the last 24 hours, or of a file.

If there are more posts than the limit, windows from the whole time are read as a sample.
"""

import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import accumulate, starmap
from random import Random
from typing import Any

from newsift.files.rows import parse_match_record
from newsift.operations.deletions import DeletedPosts, read_deletions
from newsift.operations.messages import ProgressLine
from newsift.operations.model_context import ModelContext
from newsift.operations.seed_drafts import SeedDraft
from newsift.operations.times import now_text
from newsift.statistics.background import text_hash
from worker.kafka.reading import Offsets, StoredMessage, TopicReader, records_between, sample_spans
from worker.match.pipeline import Outcome
from worker.seeds.record import PROFILE_PREFIX, Seed
from worker.seeds.state import ControlState

MIN_PROFILE_SEEDS = 2  # The mean of one seed is the seed.
FEW_SEEDS = 3  # With fewer seeds an event finds about half as many posts.
PREVIEW_HOURS = 24
SAMPLE_WINDOWS = 10
MAX_BEST_POSTS = 5


@dataclass(slots=True)
class EventSeeds:
    seeds: int = 0
    others: int = 0  # that were not added now
    has_profile: bool = False

    @property
    def may_learn(self) -> bool:
        """A profile would find more than the seeds do."""
        return self.seeds >= MIN_PROFILE_SEEDS and not self.has_profile

    @property
    def has_few_seeds(self) -> bool:
        """Whether more articles would find many more posts."""
        return self.seeds < FEW_SEEDS and not self.has_profile


def count_event_seeds(state: ControlState, new: Sequence[Seed]) -> Mapping[str, EventSeeds]:
    events: dict[str, EventSeeds] = defaultdict(EventSeeds)
    ids = {seed.id for seed in new}
    for seed in state.seeds.values():
        if not seed.paused:
            events[seed.event].seeds += 1
            events[seed.event].others += seed.id not in ids
    refusals = (
        refused_seed.id
        for refused_seed in state.refused.values()
        if refused_seed.id.startswith(PROFILE_PREFIX)
    )
    for name in (*state.profiles, *(name.removeprefix(PROFILE_PREFIX) for name in refusals)):
        events[name].has_profile = True
    return {name: events[name] for name in sorted({seed.event for seed in new})}


@dataclass(frozen=True, slots=True)
class PreviewLimits:
    posts: int
    seconds: float


TERMINAL_LIMITS = PreviewLimits(20_000, 5.0)
SCRIPT_LIMITS = PreviewLimits(5_000, 2.0)


@dataclass
class EventPreview:
    matched: int = 0
    gain: int = 0  # posts that only the added seeds match
    _best: dict[int, tuple[float, str]] = field(default_factory=dict)  # by the hash of the text

    def add(self, score: float, text: str, gain: bool) -> None:
        self.matched += 1
        self.gain += gain
        key = text_hash(text) or 0
        self._best[key] = max(self._best.get(key, (score, text)), (score, text))
        if len(self._best) > MAX_BEST_POSTS:
            del self._best[min(self._best, key=lambda key: self._best[key])]

    @property
    def best(self) -> list[tuple[float, str]]:
        """Distinct texts with their scores, the best first."""
        return sorted(self._best.values(), reverse=True)


@dataclass
class Preview:
    there: int = 0  # posts
    posts: int = 0  # that were read
    is_whole: bool = True
    hours: int | None = PREVIEW_HOURS  # None: all posts of a file
    events: dict[str, EventPreview] = field(default_factory=dict)

    def add(self, outcome: Outcome, new_ids: Set[str], deleted: DeletedPosts) -> None:
        self.posts += outcome.read - outcome.passed_over.total() - outcome.rejected.total()
        for output in outcome.records:
            if output.kind != "match" or (record := parse_match_record(output.value)) is None:
                continue
            if record.post.post_id in deleted:
                continue
            by_event: dict[str, list[tuple[float, str]]] = defaultdict(list)
            for match in record.matches:
                by_event[match.event].append((match.score, match.seed_id))
            for event, scored_seeds in by_event.items():
                gain = all(seed in new_ids for _, seed in scored_seeds)
                preview = self.events.setdefault(event, EventPreview())
                preview.add(max(scored_seeds)[0], record.post.text, gain)


def preview_seeds(
    cluster: TopicReader, context: ModelContext, state: ControlState, new: Sequence[Seed],
    limits: PreviewLimits, begin: Offsets | None = None,
) -> Preview:  # fmt: skip
    """What the events of the new seeds match by all their seeds; the state has the new ones.

    `begin` is where the posts of a file begin; all of them are then tried.
    """
    topic, new_ids = context.config.topics.posts, {seed.id for seed in new}
    seeds = context.partial_seed_set(state.of_events({seed.event for seed in new}))
    hours = None if begin else PREVIEW_HOURS
    preview, progress = Preview(hours=hours), ProgressLine()
    if not cluster.exists(topic):
        return preview
    since = int(time.time() - hours * 3600) * 1000 if hours else 0
    start, end = begin or cluster.offsets_at(topic, since), cluster.ends(topic)
    deleted = read_deletions(cluster, context.config, since)
    preview.there, deadline = records_between(start, end), time.monotonic() + limits.seconds
    spans = preview_spans(start, end, limits.posts)
    next_offsets = {partition: start[partition] for partition in end}
    for batch in _read_spans(cluster, topic, spans, deadline):
        recent = [message for message in batch if message.timestamp >= since]
        preview.add(context.pipeline.run(recent, seeds, now_text), new_ids, deleted)
        progress.add(len(batch), f"posts of the {f'last {hours} hours' if hours else 'file'} read")
        next_offsets |= {message.partition: message.offset + 1 for message in batch}
    is_in_time = next_offsets == end or time.monotonic() <= deadline
    preview.is_whole = preview.there <= limits.posts and is_in_time
    return preview


def preview_spans(start: Offsets, end: Offsets, most: int) -> list[tuple[Offsets, Offsets]]:
    """Spans of offsets with at most `most` posts: all, or a sample of the whole range.

    The order is shuffled but always the same, so that a reading that is cut short is a sample too.
    """
    spans = list(sample_spans(start, end, most, SAMPLE_WINDOWS, Random(0)))
    Random(0).shuffle(spans)
    totals = accumulate(starmap(records_between, spans))
    return [span for span, total in zip(spans, totals, strict=True) if total <= most]


def _read_spans(
    cluster: TopicReader, topic: str, spans: Sequence[tuple[Offsets, Offsets]], deadline: float
) -> Iterator[Sequence[StoredMessage]]:
    for start, end in spans:
        for batch in cluster.read(topic, start, end, deadline):
            yield batch
            if time.monotonic() > deadline:
                return


def preview_row(preview: Preview, event: str) -> dict[str, Any]:
    event_preview = preview.events.get(event, EventPreview())
    return {
        "hours": preview.hours,
        "posts": preview.posts,
        "there": preview.there,
        "whole": preview.is_whole,
        "matched": event_preview.matched,
        "gained": event_preview.gain,
        "best": [{"score": score, "text": text} for score, text in event_preview.best],
    }


def draft_status(draft: SeedDraft, before: ControlState) -> str:
    there = before.value(draft.key)
    return "new" if there is None else "unchanged" if there == draft.value else "replaced"
