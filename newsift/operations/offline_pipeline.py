"""The worker's own pipeline in a command, and what came of the posts: for filter and backfill."""

from collections import Counter
from collections.abc import Callable

import encoder
from encoder.errors import InputError
from newsift.operations.messages import ProgressLine
from worker.assembly import assembled
from worker.config import Config
from worker.match.pipeline import Outcome, Pipeline
from worker.seeds.record import PREFIX
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState


class Totals:
    """How many posts were read, and what came of them; shown on a terminal as it grows."""

    def __init__(self, share: Callable[[int], float] = lambda _: 0.0) -> None:
        self.progress = ProgressLine(share)
        self.matched = 0
        self.passed_over: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.events: Counter[str] = Counter()

    def add(self, outcome: Outcome, quiet: bool = False) -> None:
        """Count a batch."""
        self.matched += outcome.matched
        self.passed_over += outcome.passed_over
        self.rejected.update({reason.value: n for reason, n in outcome.rejected.items()})
        self.events += outcome.events
        self.progress.add(outcome.read, "posts", f", {self.matched:,} matched", quiet)


def load_pipeline(state: ControlState, config: Config) -> tuple[Pipeline, SeedSet]:
    """The pipeline of a configuration, and the seeds; one that is refused stops it."""
    chosen = config.model
    enc = encoder.load(chosen.name, device=chosen.device, threads=chosen.threads)
    pipeline, embedder = assembled(enc, config)
    seeds = embedder.make(state)
    for refused in seeds.refused:
        if not refused.id.startswith(PREFIX):
            raise InputError(f"seed {refused.id!r}: is refused: {refused.reason}")
    return pipeline, seeds


def idle_profiles(seeds: SeedSet) -> list[str]:
    """What is to be said of the profiles that do not stand for their seeds."""
    refused = [each for each in seeds.refused if each.id.startswith(PREFIX)]
    return [
        f"{each.id!r}: is {state}: {each.reason}"
        for state, those in (("refused", refused), ("stale", seeds.stale))
        for each in those
    ]
