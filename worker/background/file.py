"""The file of a background: embeddings of posts, with a note of where they are from."""

import hashlib
from math import ceil, sqrt
from pathlib import Path

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError, MismatchError
from worker.errors import ConfigError
from worker.seeds.background import OwnBackground

LEAST = 3  # posts in the tail
MARK = 12  # digits
KEY = "matching.background"
REMEDY = "build one with `newsift background build`"


def tail_of(posts: int, rate: float) -> int:
    """How many of so many posts reach a threshold that is found at this rate."""
    return round(rate * posts)


def spread_of(tail: int) -> float:
    """How far off the rate is, up or down, that a threshold found with such a tail will have."""
    return 1 / sqrt(tail) if tail else float("inf")


def refuse_small(name: object, posts: int, rate: float) -> None:
    """Refuse a background whose tail at the rate is too thin for a threshold."""
    if (tail := tail_of(posts, rate)) < LEAST:
        raise InputError(
            f"{name}: {posts:,} posts are too few for matching.background_rate {rate:g}, with "
            f"{tail} of them above a threshold and not {LEAST}; {ceil(LEAST / rate):,} are needed"
        )


def refuse_other(file: str | Path, posts: Embeddings, enc: Encoder) -> None:
    """Refuse a background that another model made."""
    if (posts.digest, posts.mix) != (enc.digest, enc.mix):
        raise MismatchError(
            f"{file}: made with model {posts.digest[:12]} (λ {posts.mix:g}), the configuration's "
            f"is {enc.digest[:12]} (λ {enc.mix:g}); {REMEDY}"
        )


def read_background(file: str | Path, enc: Encoder, rate: float) -> OwnBackground:
    """The background in a file, which this model has to have made, for thresholds at this rate."""
    try:
        mark = digest_of(file)
        posts = Embeddings.load(file)
        if digest_of(file) != mark:
            raise InputError(f"{file}: was replaced while it was read; start again")
        refuse_other(file, posts, enc)
        refuse_small(file, len(posts), rate)
    except (InputError, MismatchError) as error:
        raise ConfigError(f"{KEY}: {error}") from error
    return OwnBackground(posts, mark)


def digest_of(file: str | Path) -> str:
    """The first digits of the SHA-256 of a file: what seed_set names it by."""
    if Path(file).exists() and not Path(file).is_file():
        raise InputError(f"{file}: is no regular file; {REMEDY}")
    try:
        with Path(file).open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()[:MARK]
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); {REMEDY}") from error
