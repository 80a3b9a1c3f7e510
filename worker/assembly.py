"""Loads the model and builds the pipeline of a configuration, for the worker and commands."""

from collections.abc import Callable

import encoder
from encoder.encoder import Encoder
from worker.article_vectors import ArticleVectors, open_folder
from worker.background_file import read_background
from worker.config import Config, MatchingConfig
from worker.match.pipeline import Pipeline
from worker.match.records import RecordRules
from worker.posts.compare import PARTS, parse_parts
from worker.posts.languages import Languages
from worker.posts.read import PostRules
from worker.seeds.automatic import OwnBackground, ThresholdRules
from worker.seeds.embedder import SeedEmbedder


def load_encoder(config: Config) -> Encoder:
    model = config.model
    return encoder.load(model.name, device=model.device, threads=model.threads)


def build_pipeline(
    enc: Encoder, config: Config, timer: Callable[[], float] = lambda: 0.0, at_once: int = 1
) -> tuple[Pipeline, SeedEmbedder]:
    matching, posts = config.matching, config.posts
    rules = PostRules(posts.format, config.limits, Languages.parse(posts.langs))
    compare, skims = parse_parts(posts.compare), matching.reader == "skim"
    made = RecordRules(matching.max_matches, matching.why, skims, compare)
    pipeline = Pipeline(enc, rules, made, timer, at_once)
    background, kept = own_background(enc, matching), ArticleVectors(enc, open_folder())
    return pipeline, SeedEmbedder(enc, threshold_rules(config), background, kept.embed)


def threshold_rules(config: Config) -> ThresholdRules:
    matching, compare = config.matching, parse_parts(config.posts.compare)
    return ThresholdRules(
        matching.automatic_rate, matching.threshold, matching.total_rate is not None,
        "skim" if matching.reader == "skim" else "read", matching.read_factor, matching.links,
        compare if compare != PARTS else None,
    )  # fmt: skip


def own_background(enc: Encoder, matching: MatchingConfig) -> OwnBackground | None:
    """The background in a file that the configuration names."""
    if matching.background is None:
        return None
    return read_background(matching.background, enc, matching.automatic_rate, matching.rate_key)
