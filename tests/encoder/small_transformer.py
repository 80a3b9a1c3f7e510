"""A small model with a transformer of random weights, for tests that need both readers."""

from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from encoder.encoder import Encoder, load
from encoder.model.star_settings import AFTER, BEFORE, StarSettings
from encoder.model.star_transformer import StarTransformer
from encoder.model.star_weights import StarWeights
from encoder.model.weights import I32
from encoder.model_directory import Model, write_model
from encoder.readers.star_chunks import chunks_of
from encoder.text.tokenizer import Tokenizer
from tests.encoder.small_model import LINES, background, small_model
from train.loop.checkpoint import Checkpoint
from train.transformer.export import with_star
from train.transformer.mpnet import batches_by_length, padded
from train.transformer.quantise import channel_sizes, stored_star
from train.transformer.star_training import CHECKPOINT

SETTINGS = StarSettings(
    vocabulary=BEFORE + len(LINES) + AFTER, layers=2, width=24, heads=3, inner=48, window=4,
    bridge=0, dim=12,
)  # fmt: skip


def small_star(chunks: list[I32]) -> StarWeights:
    torch.manual_seed(0)
    star = StarTransformer(SETTINGS).eval()
    batches = (padded([chunks[i] for i in own]) for own in batches_by_length(chunks, 512))
    return stored_star(star, channel_sizes(star, batches))


@cache
def model_with_star(background_posts: int = 400) -> Model:
    model = small_model(background_posts=background_posts)
    tokens = Tokenizer(model.vocabulary, None, model.weights.config).posts(background())
    star = small_star(chunks_of(tokens.ids, tokens.offsets)[0])
    return with_star(model, star, background(background_posts))


@cache
def two_readers() -> Encoder:
    with TemporaryDirectory() as folder:
        write_model(path := Path(folder) / "model", model_with_star())
        return load(path, device="cpu", threads=1)


def write_run(folder: Path) -> StarTransformer:
    """A run's folder with a star in training."""
    torch.manual_seed(0)
    star = StarTransformer(SETTINGS).eval()
    tensors = {f"model/{name}": value for name, value in star.state_dict().items()}
    folder.mkdir()
    Checkpoint(tensors, {"step": 1, "settings": SETTINGS.as_dict()}).write(folder / CHECKPOINT)
    return star
