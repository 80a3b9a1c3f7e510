"""An encoder that is compared and never served, on disk: weights, vocabulary, idf, a manifest.

Nothing in it is ever unpickled; a file that is missing or changed is refused.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.numpy import load, save
from torch import nn

from encoder.directory import write_directory
from encoder.errors import InputError, ModelError
from encoder.manifest import IDF, MANIFEST, VOCABULARY, WEIGHTS
from encoder.model.config import AstConfig
from encoder.score.lexical import Idf
from encoder.text.vocabulary import VOCABULARIES, Vocabulary
from train.model.encoders import make_encoder

FORMAT = "newsift.baseline/1"


@dataclass(frozen=True, slots=True, eq=False)
class Baseline:
    """A trained encoder of any kind with all that reads texts for it."""

    kind: str
    config: AstConfig
    model: nn.Module
    vocabulary: Vocabulary
    idf: Idf
    mix: float
    metrics: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""


def write_baseline(path: Path, made: Baseline) -> str:
    """Write the directory whole or not at all, in place of an older one; its digest."""
    tensors = {name: value.cpu().numpy() for name, value in made.model.state_dict().items()}
    files = {
        WEIGHTS: save(tensors),
        VOCABULARY: "".join(f"{line}\n" for line in made.vocabulary.lines()).encode(),
        IDF: save({"idf": made.idf.table}),
    }
    manifest = {
        "format": FORMAT,
        "encoder": made.kind,
        "config": made.config.as_dict(),
        "vocabulary": made.vocabulary.kind,
        "mix": made.mix,
        "files": {name: hashlib.sha256(content).hexdigest() for name, content in files.items()},
    }
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()
    notes = {"metrics": dict(made.metrics), "provenance": dict(made.provenance)}
    whole = {"digest": digest} | manifest | notes
    write_directory(path, files, whole)
    return digest


def is_baseline(path: Path) -> bool:
    """Whether a directory holds such an encoder."""
    try:
        return bool(read_manifest(path).get("format") == FORMAT)
    except ModelError:
        return False


def read_baseline(path: Path) -> Baseline:
    """Read the directory, or refuse it with the file at fault."""
    manifest = read_manifest(path)
    try:
        files = {name: (path / name).read_bytes() for name in (WEIGHTS, VOCABULARY, IDF)}
        for name, content in files.items():
            if hashlib.sha256(content).hexdigest() != manifest["files"][name]:
                raise ModelError(f"{path / name}: wrong digest; train it again")
        config = AstConfig.from_dict(manifest["config"])
        lines = files[VOCABULARY].decode().split("\n")[:-1]
        vocabulary = VOCABULARIES[manifest["vocabulary"]].from_lines(lines)
        nothing = np.zeros((vocabulary.size, config.dim), np.float32)
        model = make_encoder(manifest["encoder"], config, nothing, 0)
        state = {name: torch.from_numpy(value) for name, value in load(files[WEIGHTS]).items()}
        model.load_state_dict(state)
        idf = Idf(load(files[IDF])["idf"])
        facts = (manifest[key] for key in ("mix", "metrics", "provenance", "digest"))
        return Baseline(manifest["encoder"], config, model.eval(), vocabulary, idf, *facts)
    except (OSError, SafetensorError, KeyError, TypeError, RuntimeError, InputError) as error:
        raise ModelError(f"{path}: cannot be read as an encoder ({error})") from error


def read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a directory."""
    try:
        found = json.loads((path / MANIFEST).read_bytes())
    except (OSError, ValueError) as error:
        raise ModelError(f"{path / MANIFEST}: cannot be read as JSON ({error})") from error
    return found if isinstance(found, dict) else {}
