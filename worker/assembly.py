"""Builds the pipeline of a configuration, for the worker, `filter` and `backfill`."""

from collections.abc import Callable

from encoder.encoder import Encoder
from worker.background_file import read_background
from worker.config import Config
from worker.match.pipeline import Pipeline
from worker.posts.languages import Languages
from worker.posts.read import PostRules
from worker.seeds.embedder import SeedEmbedder


def build_pipeline(
    enc: Encoder, config: Config, timer: Callable[[], float] = lambda: 0.0, at_once: int = 1
) -> tuple[Pipeline, SeedEmbedder]:
    matching, posts = config.matching, config.posts
    rules = PostRules(posts.format, config.limits, Languages.parse(posts.langs))
    pipeline = Pipeline(enc, rules, matching.max_matches, matching.why, timer, at_once)
    rate, file = matching.automatic_rate, matching.background
    own_background = read_background(file, enc, rate, matching.rate_key) if file else None
    total = matching.total_rate is not None
    return pipeline, SeedEmbedder(enc, rate, matching.threshold, own_background, total)
