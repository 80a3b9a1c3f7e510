"""What a configuration makes of a model: for the worker, the offline filter and the backfill."""

from collections.abc import Callable

from encoder.encoder import Encoder
from worker.background.file import read_background
from worker.config import Config
from worker.match.pipeline import Pipeline
from worker.posts.languages import Languages
from worker.seeds.embedder import SeedEmbedder


def assembled(
    enc: Encoder, config: Config, timer: Callable[[], float] = lambda: 0.0
) -> tuple[Pipeline, SeedEmbedder]:
    """The pipeline, and what makes the sets of seeds that it matches posts with."""
    matching, posts = config.matching, config.posts
    pipeline = Pipeline(
        enc, posts.format, config.limits, matching.max_matches, matching.why, timer,
        Languages.of(posts.langs),
    )  # fmt: skip
    rate, file = matching.background_rate, matching.background
    own = read_background(file, enc, rate) if file else None
    return pipeline, SeedEmbedder(enc, rate, matching.threshold, own)
