"""Seeds on their way to the topic: their thresholds, what they replace, what they would match."""

from collections.abc import Sequence
from typing import Any

from worker.actions.events.event import Values, values_of
from worker.actions.events.teacher import Teacher
from worker.actions.keyed import Latest, value_in
from worker.actions.seeds.files import SeedDraft
from worker.actions.seeds.known_events import known_events
from worker.actions.seeds.look_back import Haste, Seen, as_row, tried
from worker.actions.seeds.rows import AutoThresholds, fields
from worker.actions.seeds.thresholds import read_by_model, teacher_of
from worker.actions.seeds.topic import SeedTopic
from worker.config import Config
from worker.seeds.record import Seed


def said_of(draft: SeedDraft, before: Latest) -> str:
    """What a draft is beside the records before it."""
    there = value_in(before, draft.key)
    return "new" if there is None else "unchanged" if there == draft.value else "replaced"


class Publication:
    """Seeds that are published together; a model is loaded only for a preview."""

    def __init__(
        self, topic: SeedTopic, config: Config, drafts: Sequence[SeedDraft],
        seeds: Sequence[Seed], preview: bool,
    ) -> None:  # fmt: skip
        self._topic, self._config, self._drafts, self._seeds = topic, config, drafts, seeds
        self._before = topic.latest()
        self._values: Values = {}
        self._teacher: Teacher | None = None
        self.auto: AutoThresholds = {}
        if preview:
            self._look_at()

    @property
    def pairs(self) -> list[tuple[SeedDraft, Seed]]:
        """The drafts with the seeds that they are."""
        return list(zip(self._drafts, self._seeds, strict=True))

    def publish(self) -> None:
        """Publish all of them, and read the topic back."""
        self._topic.publish({draft.key: draft.value for draft in self._drafts})
        self._values = values_of(self._topic.latest())
        self.events = known_events(self._values, self._config, self._seeds)

    def said(self, draft: SeedDraft) -> str:
        """What a draft is beside the record before it."""
        return said_of(draft, self._before)

    def tried(self, haste: Haste) -> Seen | None:
        """What the events would have matched, once all is published; None without a preview."""
        if self._teacher is None:
            return None
        return tried(self._topic, self._teacher, self._values, self._seeds, haste)

    def row(self, draft: SeedDraft, seed: Seed, seen: Seen | None) -> dict[str, Any]:
        """What was published, and what would have matched, as JSON."""
        row = fields(seed) | {"published": self.said(draft)}
        if seed.id in self.auto and seed.threshold is None:
            row["auto_threshold"] = self.auto[seed.id]
        return row | ({"preview": as_row(seen, seed.event)} if seen else {})

    def _look_at(self) -> None:
        self._teacher = teacher_of(self._config)
        if self._teacher is not None:
            self.auto = read_by_model(self._teacher, self._drafts)
