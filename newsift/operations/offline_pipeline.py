"""The worker's pipeline inside a command, and totals of its outcomes."""

from collections import Counter
from collections.abc import Callable

from encoder.errors import InputError
from newsift.operations.messages import ProgressLine
from worker.assembly import build_pipeline, load_encoder
from worker.config import Config
from worker.match.pipeline import Outcome, Pipeline
from worker.seeds.record import PROFILE_PREFIX
from worker.seeds.set import SeedSet
from worker.seeds.state import ControlState

MAX_DIFFERENT_POSTS = 1_000_000  # some 60 MB


class Totals:
    def __init__(self, share: Callable[[int], float] = lambda _: 0.0) -> None:
        self.progress = ProgressLine(share)
        self.matched = 0
        self._matched_posts = set[int]()  # hashes of their names
        self.passed_over: Counter[str] = Counter()
        self.rejected: Counter[str] = Counter()
        self.events: Counter[str] = Counter()

    @property
    def different(self) -> int | None:
        """Matched posts, each id once, as the desk counts them; None if they are too many."""
        count = len(self._matched_posts)
        return None if count >= MAX_DIFFERENT_POSTS else count

    def add(self, outcome: Outcome, quiet: bool = False) -> None:
        self.matched += outcome.matched
        if len(self._matched_posts) < MAX_DIFFERENT_POSTS:
            matches = (record for record in outcome.records if record.kind == "match")
            self._matched_posts |= {hash(record.key) for record in matches}
        self.passed_over += outcome.passed_over
        self.rejected.update({reason.value: n for reason, n in outcome.rejected.items()})
        self.events += outcome.events
        self.progress.add(outcome.read, "posts", f", {self.matched:,} matched", quiet)


def load_pipeline(
    state: ControlState, config: Config, whole: ControlState | None = None
) -> tuple[Pipeline, SeedSet]:
    """Raises if a seed is refused. `state` may be a part of `whole`, which has the total rate."""
    pipeline, embedder = build_pipeline(load_encoder(config), config)
    shift = None
    if whole is not None and config.matching.total_rate is not None:
        shift = embedder.make(whole).raised
    seeds = embedder.make(state, shift)
    for refusal in seeds.refused:
        if not refusal.id.startswith(PROFILE_PREFIX):
            raise InputError(f"seed {refusal.id!r}: is refused: {refusal.reason}")
    return pipeline, seeds


def describe_idle_profiles(seeds: SeedSet) -> list[str]:
    refusals = [profile for profile in seeds.refused if profile.id.startswith(PROFILE_PREFIX)]
    return [
        f"{profile.id!r}: is {state}: {profile.reason}"
        for state, profiles in (("refused", refusals), ("stale", seeds.stale))
        for profile in profiles
    ]
