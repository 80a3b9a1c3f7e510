"""The file of a background: embeddings of posts, checked against a model and a rate."""

import hashlib
from pathlib import Path

from encoder.embeddings import Background, Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError, MismatchError
from worker.errors import ConfigError
from worker.seeds.automatic import RATE_KEY, OwnBackground, refuse_small

DIGEST_DIGITS = 12
BACKGROUND_KEY = "matching.background"
REMEDY = "build one with `newsift background build`"


def refuse_other_model(file: str | Path, posts: Embeddings, enc: Encoder) -> None:
    dim = posts.dense.shape[1]
    if (posts.digest, posts.mix, dim) != (enc.digest, enc.mix, enc.dim):
        raise MismatchError(
            f"{file}: made with model {posts.digest[:12]} (λ {posts.mix:g}, dim {dim}), the "
            f"configuration's is {enc.digest[:12]} (λ {enc.mix:g}, dim {enc.dim}); {REMEDY}"
        )


def read_background(
    file: str | Path, enc: Encoder, rate: float, rate_key: str = RATE_KEY
) -> OwnBackground:
    """The background in a file, checked against this model and this rate."""
    try:
        digest = file_digest(file)
        posts = Background.load(file)
        if file_digest(file) != digest:
            raise InputError(f"{file}: was replaced while it was read; start again")
        for rows in (posts.read, posts.skim):
            refuse_other_model(file, rows, enc)
        if enc.has_star and posts.has_one_reader:
            raise InputError(f"{file}: holds the vectors of one reader alone; {REMEDY}")
        refuse_small(file, len(posts), rate, rate_key)
    except (InputError, MismatchError) as error:
        raise ConfigError(f"{BACKGROUND_KEY}: {error}") from error
    return OwnBackground(posts, digest)


def file_digest(file: str | Path) -> str:
    """The first digits of the SHA-256 of a file, as in seed_set."""
    if Path(file).exists() and not Path(file).is_file():
        raise InputError(f"{file}: is not a regular file; {REMEDY}")
    try:
        with Path(file).open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()[:DIGEST_DIGITS]
    except OSError as error:
        raise InputError(f"{file}: cannot be read ({error.strerror}); {REMEDY}") from error
