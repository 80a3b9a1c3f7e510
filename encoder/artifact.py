"""A model directory: weights, vocabulary, idf, background and a manifest that vouches for them.

Nothing in it is ever unpickled; a file that is missing, cut short, changed or of another model is
refused.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from encoder.config import AstConfig
from encoder.embeddings import unit_rows
from encoder.errors import InputError, ModelError
from encoder.lexical import Idf, SparseRows
from encoder.vocabulary import VOCABULARIES, Vocabulary
from encoder.weights import F32, I32, I64, Weights

FORMAT = "newsift.model/1"
MANIFEST = "manifest.json"
WEIGHTS, VOCABULARY, IDF = "model.safetensors", "vocabulary.txt", "idf.safetensors"
BACKGROUND, CHECK = "background.safetensors", "check.safetensors"
PICKLE_HEADS = (b"\x80", b"PK\x03\x04")

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class Background:
    """Embeddings of everyday posts, against which automatic thresholds are set."""

    dense: F32  # [posts, d]
    lexical: SparseRows  # [posts, slots]


@dataclass(frozen=True, slots=True, eq=False)
class SelfCheck:
    """Some token sequences and their exact vectors, to prove a fast path before it is trusted."""

    ids: I32  # [tokens]
    offsets: I64  # [texts + 1]
    vectors: F32  # [texts, d], as posts, not normalised


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Everything a model directory holds."""

    weights: Weights
    vocabulary: Vocabulary
    idf: Idf | None
    mix: float
    background: Background
    check: SelfCheck
    metrics: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def __post_init__(self) -> None:
        rows, words = len(self.weights.embedding), self.vocabulary.size
        if rows != words:
            raise InputError(
                f"{VOCABULARY}: {words} entries for a table of {rows} rows; "
                "this is another model's vocabulary"
            )
        if not 0 <= self.mix < 1 or (self.mix > 0 and self.idf is None):
            raise InputError(f"mix: {self.mix} needs 0 ≤ λ < 1, and an idf table unless it is 0")
        dim = self.weights.config.dim
        if self.background.dense.shape[1:] != (dim,) or self.check.vectors.shape[1:] != (dim,):
            raise InputError(f"{BACKGROUND}, {CHECK}: vectors are not {dim} wide")
        if not (np.isfinite(self.background.dense).all() and np.isfinite(self.check.vectors).all()):
            raise InputError(f"{BACKGROUND}, {CHECK}: holds NaN or infinity")


def write_model(path: str | Path, model: Model) -> str:
    """Write a model directory whole or not at all, in place of an older one; its digest."""
    path = Path(path)
    files = {name: content for name, content in _contents(model).items() if content}
    manifest = _manifest(model, files)
    files[MANIFEST] = json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    except OSError as error:
        raise ModelError(f"{path}: cannot be written ({error.strerror})") from error
    try:
        for name, content in files.items():
            (staging / name).write_bytes(content)
        staging.chmod(0o755)
        _swap(staging, path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be written ({error.strerror})") from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return str(manifest["digest"])


def _swap(staging: Path, path: Path) -> None:
    """Move the new directory into place; the old one comes back if that fails."""
    if not path.exists():
        staging.rename(path)
        return
    if not (path / MANIFEST).exists():
        raise ModelError(f"{path}: exists and is no model directory; name another place")
    old = path.with_name(f".{path.name}.old")
    shutil.rmtree(old, ignore_errors=True)
    path.rename(old)
    try:
        staging.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def read_model(path: str | Path) -> Model:
    """Read a model directory, or refuse it with the file at fault and the remedy."""
    path = Path(path)
    manifest = _read_manifest(path)
    files = {name: _read_file(path, name, facts) for name, facts in manifest["files"].items()}
    if _digest(manifest) != manifest["digest"]:
        raise ModelError(f"{path / MANIFEST}: wrong digest; the settings were changed by hand")
    try:
        return _model(manifest, files)
    except (InputError, SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ModelError(f"{path}: {error}") from error


def snap(weights: Weights) -> Weights:
    """The weights as a model directory gives them back: the token vectors rounded to int8."""
    table = {"embedding": _dequantised(*_quantised(weights.embedding))}
    return Weights.from_tensors(weights.config, {**weights.tensors(), **table})


def _contents(model: Model) -> dict[str, bytes]:
    named: Arrays = {k: np.ascontiguousarray(v) for k, v in model.weights.tensors().items()}
    named["embedding.int8"], named["embedding.scale"] = _quantised(named.pop("embedding"))
    rows = model.background.lexical
    vectors, scale = _quantised(model.background.dense)
    background: Arrays = {
        "dense.int8": vectors,
        "dense.scale": scale,
        "lexical.indptr": rows.indptr,
        "lexical.slots": rows.slots,
        "lexical.weights": rows.weights.astype(np.float16),
    }
    check: Arrays = {
        "ids": model.check.ids,
        "offsets": model.check.offsets,
        "vectors": model.check.vectors,
    }
    return {
        WEIGHTS: save(named),
        VOCABULARY: "".join(f"{line}\n" for line in model.vocabulary.lines()).encode(),
        IDF: save({"idf": model.idf.table.astype(np.float16)}) if model.idf else b"",
        BACKGROUND: save(background),
        CHECK: save(check),
    }


def _model(manifest: dict[str, Any], files: dict[str, bytes]) -> Model:
    named = load(files[WEIGHTS])
    named["embedding"] = _dequantised(named.pop("embedding.int8"), named.pop("embedding.scale"))
    kind = manifest["vocabulary"]
    if kind not in VOCABULARIES:
        raise InputError(f"vocabulary {kind!r} is unknown; upgrade newsift")
    background = load(files[BACKGROUND])
    rows = SparseRows(
        background["lexical.indptr"],
        background["lexical.slots"],
        background["lexical.weights"].astype(np.float32),
    )
    dense = _dequantised(background["dense.int8"], background["dense.scale"])
    check = load(files[CHECK])
    return Model(
        weights=Weights.from_tensors(AstConfig.from_dict(manifest["config"]), named),
        vocabulary=VOCABULARIES[kind].from_lines(files[VOCABULARY].decode().split("\n")[:-1]),
        idf=Idf(load(files[IDF])["idf"].astype(np.float32)) if IDF in files else None,
        mix=manifest["mix"],
        background=Background(unit_rows(dense), rows.unit()),
        check=SelfCheck(check["ids"], check["offsets"], check["vectors"]),
        metrics=manifest["metrics"],
        provenance=manifest["provenance"],
        digest=manifest["digest"],
    )


def _manifest(model: Model, files: dict[str, bytes]) -> dict[str, Any]:
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "config": model.weights.config.as_dict(),
        "vocabulary": model.vocabulary.kind,
        "mix": model.mix,
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in sorted(files.items())
        },
        "metrics": dict(model.metrics),
        "provenance": dict(model.provenance),
    }
    return {"digest": _digest(manifest), **manifest}


def _digest(manifest: dict[str, Any]) -> str:
    """The digest of what decides an embedding or a threshold: settings and files, not the notes."""
    content = [manifest[key] for key in ("format", "config", "vocabulary", "mix", "files")]
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _read_manifest(path: Path) -> dict[str, Any]:
    file = path / MANIFEST
    try:
        manifest = json.loads(file.read_bytes())
    except FileNotFoundError as error:
        raise ModelError(f"{path}: no model directory ({MANIFEST} is missing)") from error
    except (OSError, ValueError) as error:
        raise ModelError(f"{file}: cannot be read as JSON ({error}); restore the model") from error
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != FORMAT:
        raise ModelError(
            f"{file}: format {found!r} is unknown, expected {FORMAT!r}; upgrade newsift"
        )
    keys = {"digest", "config", "vocabulary", "mix", "files", "metrics", "provenance"}
    missing = keys - set(manifest) or {WEIGHTS, VOCABULARY, BACKGROUND, CHECK} - set(
        manifest["files"]
    )
    if missing:
        raise ModelError(f"{file}: {', '.join(sorted(missing))} is missing; restore the model")
    return dict(manifest)


def _read_file(path: Path, name: str, facts: dict[str, Any]) -> bytes:
    file = path / name
    if Path(name).name != name:
        raise ModelError(f"{path / MANIFEST}: {name!r} leads out of the model directory")
    try:
        content = file.read_bytes()
    except OSError as error:
        raise ModelError(f"{file}: {error.strerror}; restore the model directory") from error
    if name != VOCABULARY and content.startswith(PICKLE_HEADS):
        raise ModelError(
            f"{file}: is a pickle, which newsift never opens; export it as safetensors"
        )
    if len(content) < facts["bytes"]:
        raise ModelError(
            f"{file}: cut short, {len(content)} of {facts['bytes']} bytes; restore the model"
        )
    if hashlib.sha256(content).hexdigest() != facts["sha256"]:
        raise ModelError(
            f"{file}: wrong digest, the file is another model's or damaged; restore it"
        )
    return content


def _quantised(rows: F32) -> tuple[NDArray[np.int8], F32]:
    scale = (np.abs(rows).max(axis=1, initial=0) / 127).astype(np.float32)  # [n]
    safe = np.where(scale > 0, scale, 1)[:, None]
    return np.rint(rows / safe).astype(np.int8), scale


def _dequantised(rows: NDArray[np.int8], scale: F32) -> F32:
    return np.asarray(rows * scale[:, None], dtype=np.float32)
