"""Grouping: which story each match of a batch tells, partition by partition, since it came here."""

from collections import defaultdict

from encoder.embeddings import Embeddings
from worker.match.groups import Stories
from worker.match.pipeline import Outcome
from worker.match.records import Story, Telling, with_group
from worker.stream.ledger import Batch

MINUTE_MS = 60_000


class Grouping:
    """The groups of every partition, begun anew when the partitions are dealt anew.

    It is handed the batches one at a time, in the order of their offsets.
    """

    def __init__(self) -> None:
        self._epoch = -1
        self._groups: dict[int, Stories] = {}

    def place(self, batch: Batch, outcome: Outcome) -> None:
        """Write its group into each match record, and count the stories of each event."""
        if batch.epoch != self._epoch:
            self._epoch, self._groups = batch.epoch, {}
        matches = [
            (at, record.telling) for at, record in enumerate(outcome.records)
            if record.telling is not None
        ]  # fmt: skip
        partitions: defaultdict[int, list[int]] = defaultdict(list)
        for number, (at, _) in enumerate(matches):
            message = batch.messages[outcome.records[at].source]
            partitions[message.partition].append(number)
        vectors = Embeddings.concat(outcome.vectors)  # a row for each match
        for partition, numbers in partitions.items():
            groups = self._groups.setdefault(partition, Stories())
            found = groups.place([matches[number][1] for number in numbers], vectors[numbers])
            for number, story in zip(numbers, found, strict=True):
                self._note(batch, outcome, *matches[number], story)

    def _note(
        self, batch: Batch, outcome: Outcome, at: int, telling: Telling, story: Story
    ) -> None:
        record = outcome.records[at]
        outcome.records[at] = with_group(record, story)
        if story.new:
            minute = (batch.messages[record.source].timestamp or 0) // MINUTE_MS
            outcome.stories.update((event, minute) for event in telling.events)
