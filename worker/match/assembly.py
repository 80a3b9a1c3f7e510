"""What a configuration makes of a model: for the worker, the offline filter and the backfill."""

from collections.abc import Callable

from encoder.encoder import Encoder
from worker.background.file import read_background
from worker.config import Config
from worker.match.pipeline import Pipeline
from worker.seeds.embedder import SeedEmbedder


def assembled(
    enc: Encoder, config: Config, timer: Callable[[], float] = lambda: 0.0
) -> tuple[Pipeline, SeedEmbedder]:
    """The pipeline, and what makes the sets of seeds that it matches posts with."""
    matching = config.matching
    pipeline = Pipeline(
        enc, config.posts.format, config.limits, matching.max_matches, matching.why, timer
    )
    rate, file = matching.background_rate, matching.background
    own = read_background(file, enc, rate) if file else None
    return pipeline, SeedEmbedder(enc, rate, matching.threshold, own)
