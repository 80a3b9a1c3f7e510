"""An encoder that is compared and never served, on disk: one file in a folder of its own."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from encoder.errors import InputError, ModelError
from encoder.model.config import AstConfig
from encoder.score.lexical import Idf
from encoder.text.vocabulary import VOCABULARIES, Vocabulary
from train.loop.checkpoint import Checkpoint
from train.model.encoders import make_encoder

BASELINE = "baseline.safetensors"
IDF = "idf"


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """A trained encoder of any kind with all that reads texts for it."""

    kind: str
    config: AstConfig
    model: nn.Module
    vocabulary: Vocabulary
    idf: Idf
    mix: float


def write_baseline(path: Path, made: Baseline, notes: Mapping[str, Any]) -> str:
    """Write the folder, with notes on where it comes from; the digest of its file."""
    tensors = made.model.state_dict() | {IDF: torch.from_numpy(made.idf.table)}
    values = {
        "encoder": made.kind,
        "config": made.config.as_dict(),
        "vocabulary": [made.vocabulary.kind, made.vocabulary.lines()],
        "mix": made.mix,
        "notes": notes,
    }
    path.mkdir(parents=True, exist_ok=True)
    Checkpoint(tensors, values).write(path / BASELINE)
    return hashlib.sha256((path / BASELINE).read_bytes()).hexdigest()


def is_baseline(path: Path) -> bool:
    """Whether a folder holds such an encoder."""
    return (path / BASELINE).is_file()


def read_baseline(path: Path) -> Baseline:
    """Read the folder, or refuse it with the file at fault."""
    kept = Checkpoint.read(path / BASELINE)
    if kept is None:
        raise ModelError(f"{path}: holds no {BASELINE}")
    try:
        values, state = kept.values, dict(kept.tensors)
        idf = Idf(state.pop(IDF).numpy())
        config = AstConfig.from_dict(values["config"])
        kind, lines = values["vocabulary"]
        vocabulary = VOCABULARIES[kind].from_lines(lines)
        nothing = np.zeros((vocabulary.size, config.dim), np.float32)
        model = make_encoder(values["encoder"], config, nothing, 0)
        model.load_state_dict(state)
        return Baseline(values["encoder"], config, model.eval(), vocabulary, idf, values["mix"])
    except (KeyError, TypeError, ValueError, RuntimeError, InputError) as error:
        raise ModelError(f"{path}: cannot be read as an encoder ({error})") from error
