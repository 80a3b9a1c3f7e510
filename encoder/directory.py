"""A model directory: weights, vocabulary, idf, background and a manifest that vouches for them.

Nothing in it is ever unpickled; a file that is missing, cut short, changed or of another model is
refused.
"""

import json
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from encoder.embeddings import Embeddings, unit_rows
from encoder.errors import InputError, ModelError, one_line
from encoder.manifest import (
    ARTICLE_CHECK,
    BACKGROUND,
    CHECK,
    FORMAT,
    IDF,
    MANIFEST,
    VOCABULARY,
    WEIGHTS,
    Manifest,
    digest_of,
    facts_of,
    read_directory,
)
from encoder.model.config import MAX_TOKENS, AstConfig, Side
from encoder.model.weights import F32, I32, I64, Weights, quantised_rows
from encoder.score.lexical import Idf, SparseRows
from encoder.support.shared import shared
from encoder.text.vocabulary import VOCABULARIES, Vocabulary

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class SelfCheck:
    """Some token sequences and their exact vectors, to prove a fast path before it is trusted."""

    ids: I32  # [tokens]
    offsets: I64  # [texts + 1]
    vectors: F32  # [texts, d], not normalised
    side: Side

    def __post_init__(self) -> None:
        texts, name = len(self.offsets) - 1, f"self-check of {self.side.name.lower()}s"
        kinds = [(a.dtype.name, a.ndim) for a in (self.ids, self.offsets, self.vectors)]
        if kinds != [("int32", 1), ("int64", 1), ("float32", 2)]:
            told = "int32 ids and int64 offsets in one axis, float32 vectors in two"
            raise InputError(f"{name}: {kinds}, expected {told}")
        if texts < 1 or len(self.vectors) != texts or not self.vectors.any():
            raise InputError(f"{name}: {len(self.vectors)} vectors of {texts} texts prove nothing")
        lengths = np.diff(self.offsets)
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.ids) or (lengths < 0).any():
            raise InputError(f"{name}: the offsets do not rise from 0 to {len(self.ids)}")
        if lengths.max() > MAX_TOKENS or not np.isfinite(self.vectors).all():
            raise InputError(f"{name}: a text is too long, or a vector holds NaN or infinity")


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Everything a model directory holds."""

    weights: Weights
    vocabulary: Vocabulary
    idf: Idf | None
    mix: float
    background: Embeddings  # of everyday posts, against which automatic thresholds are set
    check: SelfCheck  # of posts
    article_check: SelfCheck  # a short one, one as long as can be, and one without a token
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
        if not len(self.background) or not self.background.is_unit():
            told = "needs some, each of length 1 or zero, and no NaN"
            raise InputError(f"{BACKGROUND}: {len(self.background)} rows; {told}")
        dim = self.weights.config.dim
        checks = self.check, self.article_check
        if {v.shape[1] for v in (self.background.dense, *(c.vectors for c in checks))} != {dim}:
            raise InputError(f"{BACKGROUND}, {CHECK}, {ARTICLE_CHECK}: vectors are not {dim} wide")
        for check in checks:
            if not 0 <= check.ids.min(initial=0) <= check.ids.max(initial=0) < words:
                raise InputError(f"{CHECK}, {ARTICLE_CHECK}: ids outside the vocabulary of {words}")


def write_model(path: str | Path, model: Model) -> str:
    """Write a model directory; its digest."""
    files, checks = _contents(model), {ARTICLE_CHECK: _saved(model.article_check)}
    manifest = _manifest(model, files, checks)
    write_directory(Path(path), {**files, **checks}, manifest)
    return str(manifest["digest"])


def write_directory(path: Path, files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> None:
    """Write files and a manifest, whole or not at all, in place of an older model directory."""
    if path.exists() and not (path / MANIFEST).exists():
        raise ModelError(f"{path}: exists and is no model directory; name another place")
    noted = json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as staging:
            new = Path(staging) / "new"
            new.mkdir()
            for name, content in {**files, MANIFEST: noted}.items():
                (new / name).write_bytes(content)
            _swap(new, path, Path(staging) / "old")
    except OSError as error:
        raise ModelError(f"{path}: cannot be written ({error.strerror})") from error


def _swap(new: Path, path: Path, aside: Path) -> None:
    """Move the new directory into place; the old one comes back if that fails."""
    if not path.exists():
        new.rename(path)
        return
    path.rename(aside)
    try:
        new.rename(path)
    except BaseException:
        aside.rename(path)
        raise


def read_model(path: str | Path) -> Model:
    """Read a model directory, or refuse it with the file at fault and the remedy."""
    path = Path(path)
    manifest, files = read_directory(path)
    try:
        return _model(manifest, files)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ModelError(one_line(f"{path}: {error}; restore the model")) from error


def snap(weights: Weights) -> Weights:
    """The weights as a model directory gives them back: the token vectors rounded to int8."""
    table = {"embedding": _dequantised(*quantised_rows(weights.embedding))}
    return Weights.from_tensors(weights.config, {**weights.tensors(), **table})


def _contents(model: Model) -> dict[str, bytes]:
    named: Arrays = {k: np.ascontiguousarray(v) for k, v in model.weights.tensors().items()}
    named["embedding.int8"], named["embedding.scale"] = quantised_rows(named.pop("embedding"))
    rows = model.background.lexical
    vectors, scale = quantised_rows(model.background.dense)
    background: Arrays = {
        "dense.int8": vectors,
        "dense.scale": scale,
        "lexical.indptr": rows.indptr,
        "lexical.slots": rows.slots,
        "lexical.weights": rows.weights.astype(np.float16),
    }
    if model.background.ends:
        background["ends"] = np.array(model.background.ends, np.int64)
    return {
        WEIGHTS: save(named),
        VOCABULARY: "".join(f"{line}\n" for line in model.vocabulary.lines()).encode(),
        BACKGROUND: save(background),
        CHECK: _saved(model.check),
        **({IDF: save({"idf": model.idf.table.astype(np.float16)})} if model.idf else {}),
    }


def _saved(check: SelfCheck) -> bytes:
    return save({"ids": check.ids, "offsets": check.offsets, "vectors": check.vectors})


def _model(manifest: Manifest, files: dict[str, bytes]) -> Model:
    if manifest.vocabulary not in VOCABULARIES:
        raise InputError(f"vocabulary {manifest.vocabulary!r} is unknown; upgrade newsift")
    return Model(
        weights=_weights(manifest, load(files[WEIGHTS])),
        vocabulary=VOCABULARIES[manifest.vocabulary].from_lines(
            files[VOCABULARY].decode().split("\n")[:-1]
        ),
        idf=Idf(load(files[IDF])["idf"].astype(np.float32)) if IDF in files else None,
        mix=manifest.mix,
        background=_background(manifest, load(files[BACKGROUND])),
        check=_check(files[CHECK], Side.POST),
        article_check=_check(files[ARTICLE_CHECK], Side.ARTICLE),
        metrics=manifest.metrics,
        provenance=manifest.provenance,
        digest=manifest.digest,
    )


def _weights(manifest: Manifest, named: Arrays) -> Weights:
    codes, scale = named.pop("embedding.int8"), named.pop("embedding.scale")
    kept_as = f"{manifest.digest}-embedding"
    made = shared(kept_as, np.float32, codes.shape, lambda: _dequantised(codes, scale))
    config = AstConfig.from_dict(manifest.config)
    return Weights.from_tensors(config, {**named, "embedding": made})


def _background(manifest: Manifest, named: Arrays) -> Embeddings:
    codes, scale = named["dense.int8"], named["dense.scale"]
    kept_as = f"{manifest.digest}-background"
    made = shared(kept_as, np.float32, codes.shape, lambda: unit_rows(_dequantised(codes, scale)))
    weights = named["lexical.weights"].astype(np.float32)
    words = SparseRows(named["lexical.indptr"], named["lexical.slots"], weights)
    ends = tuple(named["ends"].tolist()) if "ends" in named else ()
    return Embeddings(made, words.unit(), manifest.mix, manifest.digest, ends)


def _check(content: bytes, side: Side) -> SelfCheck:
    named = load(content)
    return SelfCheck(named["ids"], named["offsets"], named["vectors"], side)


def _manifest(model: Model, files: dict[str, bytes], checks: dict[str, bytes]) -> dict[str, Any]:
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "config": model.weights.config.as_dict(),
        "vocabulary": model.vocabulary.kind,
        "mix": model.mix,
        "files": facts_of(files),
        "checks": facts_of(checks),
        "metrics": dict(model.metrics),
        "provenance": dict(model.provenance),
    }
    return {"digest": digest_of(manifest), **manifest}


def _dequantised(rows: NDArray[np.int8], scale: F32) -> F32:
    if rows.dtype != np.int8 or rows.ndim != 2 or scale.shape != rows.shape[:1]:
        raise InputError(f"{rows.dtype} {rows.shape} by {scale.shape}: no int8 rows with a scale")
    return np.asarray(rows * scale[:, None], dtype=np.float32)
