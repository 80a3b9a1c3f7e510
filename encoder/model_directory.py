"""Read and write model directories: files, and a manifest with settings, sizes and digests."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from encoder.embeddings import Embeddings, unit_rows
from encoder.errors import InputError, ModelError, one_line
from encoder.model.config import MAX_TOKENS, AstConfig, Side
from encoder.model.weights import F32, I32, I64, Weights, dequantise_rows, quantise_rows
from encoder.score.lexical import Idf, SparseRows
from encoder.support.files import read_regular
from encoder.support.readonly import frozen
from encoder.text.vocabulary import VOCABULARIES, Vocabulary

KIND = "newsift.model/"
FORMAT = f"{KIND}2"
MANIFEST = "manifest.json"
WEIGHTS, VOCABULARY, IDF = "model.safetensors", "vocabulary.txt", "idf.safetensors"
BACKGROUND, CHECK = "background.safetensors", "check.safetensors"
ARTICLE_CHECK = "check-articles.safetensors"
REQUIRED_FILES = {WEIGHTS, VOCABULARY, BACKGROUND, CHECK}
ALL_FILES = {MANIFEST, *REQUIRED_FILES, IDF, ARTICLE_CHECK}
PICKLE_HEADS = (b"\x80", b"PK\x03\x04")
MANIFEST_BYTES = 2**20
FILE_BYTES = 2**31


class FileFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bytes: Annotated[int, msgspec.Meta(ge=0, le=FILE_BYTES)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Manifest(msgspec.Struct, frozen=True):
    digest: str
    config: dict[str, Any]
    vocabulary: str
    mix: float
    files: dict[str, FileFacts]
    # These files test the code that runs the model, so the digest does not include them.
    checks: dict[str, FileFacts]
    metrics: dict[str, Any]
    provenance: dict[str, Any]

    def __post_init__(self) -> None:
        odd = (self.files.keys() ^ REQUIRED_FILES) - {IDF} or self.checks.keys() ^ {ARTICLE_CHECK}
        if odd:
            raise ValueError(f"{', '.join(sorted(odd))} is missing, or is not a file of a model")


def digest_of(manifest: Mapping[str, Any]) -> str:
    """The digest of everything that affects embeddings or thresholds; notes are excluded."""
    content = [manifest[key] for key in ("format", "config", "vocabulary", "mix", "files")]
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def facts_of(files: Mapping[str, bytes]) -> dict[str, dict[str, int | str]]:
    return {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in sorted(files.items())
    }


def read_directory(folder: Path) -> tuple[Manifest, dict[str, bytes]]:
    """Read a model directory; every file is checked against the manifest."""
    manifest = read_manifest(folder)
    facts = manifest.files | manifest.checks
    return manifest, {name: _read_file(folder / name, facts[name]) for name in facts}


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a model directory and check its digest."""
    file = folder / MANIFEST
    try:
        content = msgspec.json.decode(read_regular(file, MANIFEST_BYTES))
        version = content.get("format") if isinstance(content, dict) else None
        if version != FORMAT:
            fault = f"format {version!r}, not {FORMAT!r}; train it again, or upgrade newsift"
            raise ModelError(one_line(f"{file}: {fault}"))
        manifest = msgspec.convert(content, Manifest)
    except FileNotFoundError as error:
        raise ModelError(f"{folder}: no model directory ({MANIFEST} is missing)") from error
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ModelError(one_line(f"{file}: cannot be read: {error}; restore the model")) from error
    if digest_of(content) != manifest.digest:
        raise ModelError(f"{file}: wrong digest; the settings were changed by hand")
    return manifest


def _read_file(file: Path, facts: FileFacts) -> bytes:
    try:
        content = read_regular(file, facts.bytes)
    except OSError as error:
        raise ModelError(f"{file}: {error.strerror}; restore the model directory") from error
    if file.name != VOCABULARY and content.startswith(PICKLE_HEADS):
        raise ModelError(
            f"{file}: is a pickle, which newsift never opens; export it as safetensors"
        )
    if len(content) < facts.bytes:
        fault = f"cut short, {len(content)} of {facts.bytes} bytes"
        raise ModelError(f"{file}: {fault}; restore the model")
    if hashlib.sha256(content).hexdigest() != facts.sha256:
        raise ModelError(
            f"{file}: wrong digest, the file is another model's or damaged; restore it"
        )
    return content


Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True, slots=True, eq=False)
class SelfCheck:
    """Token sequences and their exact vectors, to check a backend before it is used."""

    ids: I32  # [tokens]
    offsets: I64  # [texts + 1]
    vectors: F32  # [texts, d], not normalised
    side: Side

    def __post_init__(self) -> None:
        texts, name = len(self.offsets) - 1, f"self-check of {self.side.name.lower()}s"
        kinds = [(a.dtype.name, a.ndim) for a in (self.ids, self.offsets, self.vectors)]
        if kinds != [("int32", 1), ("int64", 1), ("float32", 2)]:
            expected = "int32 ids and int64 offsets in one axis, float32 vectors in two"
            raise InputError(f"{name}: {kinds}, expected {expected}")
        if texts < 1 or len(self.vectors) != texts or not self.vectors.any():
            raise InputError(f"{name}: {len(self.vectors)} vectors of {texts} texts prove nothing")
        lengths = np.diff(self.offsets)
        if self.offsets[0] != 0 or self.offsets[-1] != len(self.ids) or (lengths < 0).any():
            raise InputError(f"{name}: the offsets do not rise from 0 to {len(self.ids)}")
        if lengths.max() > MAX_TOKENS or not np.isfinite(self.vectors).all():
            raise InputError(f"{name}: a text is too long, or a vector holds NaN or infinity")


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    weights: Weights
    vocabulary: Vocabulary
    idf: Idf | None
    mix: float
    background: Embeddings  # everyday posts, for automatic thresholds
    check: SelfCheck  # of posts
    article_check: SelfCheck  # short texts, one of maximal length, and one without tokens
    metrics: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    digest: str = ""

    def __post_init__(self) -> None:
        rows, words = self.weights.vocabulary, self.vocabulary.size
        if rows != words:
            raise InputError(
                f"{VOCABULARY}: {words} entries for a table of {rows} rows; "
                "this is another model's vocabulary"
            )
        if not 0 <= self.mix < 1 or (self.mix > 0 and self.idf is None):
            raise InputError(f"mix: {self.mix} needs 0 ≤ λ < 1, and an idf table unless it is 0")
        if not len(self.background) or not self.background.is_unit():
            rule = "needs some, each of length 1 or zero, and no NaN"
            raise InputError(f"{BACKGROUND}: {len(self.background)} rows; {rule}")
        dim = self.weights.config.dim
        checks = self.check, self.article_check
        if {v.shape[1] for v in (self.background.dense, *(c.vectors for c in checks))} != {dim}:
            raise InputError(f"{BACKGROUND}, {CHECK}, {ARTICLE_CHECK}: vectors are not {dim} wide")
        for check in checks:
            if not 0 <= check.ids.min(initial=0) <= check.ids.max(initial=0) < words:
                raise InputError(f"{CHECK}, {ARTICLE_CHECK}: ids outside the vocabulary of {words}")


def write_model(path: str | Path, model: Model) -> str:
    """Write a model directory and return its digest."""
    files, checks = _contents(model), {ARTICLE_CHECK: _check_tensors(model.article_check)}
    manifest = _manifest(model, files, checks)
    write_directory(Path(path), {**files, **checks}, manifest)
    return str(manifest["digest"])


def write_directory(path: Path, files: Mapping[str, bytes], manifest: Mapping[str, Any]) -> None:
    """Write files and a manifest; an older model directory is replaced atomically.

    What else lies in it, such as a card, stays.
    """
    refuse_other_folder(path)
    manifest_bytes = json.dumps(manifest, indent=1, ensure_ascii=False).encode() + b"\n"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}.") as staging:
            new = Path(staging) / "new"
            new.mkdir()
            if path.exists():
                shutil.copytree(path, new, True, partial(_names_of_model, path), dirs_exist_ok=True)
            for name, content in {**files, MANIFEST: manifest_bytes}.items():
                with (new / name).open("xb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            _swap(new, path, Path(staging) / "old")
    except OSError as error:
        raise ModelError(f"{path}: cannot be written ({error.strerror})") from error


def refuse_other_folder(path: Path) -> None:
    """Raise ModelError if the path exists and is not a model directory, of whatever version."""
    if not path.exists():
        return
    try:
        content = msgspec.json.decode(read_regular(path / MANIFEST, MANIFEST_BYTES))
    except (OSError, RecursionError, msgspec.MsgspecError):
        content = None
    if not isinstance(content, dict) or not str(content.get("format")).startswith(KIND):
        raise ModelError(f"{path}: exists and is not a model directory; name another place")


def _names_of_model(path: Path, folder: str, _names: list[str]) -> set[str]:
    return ALL_FILES if Path(folder) == path else set()


def _swap(new: Path, path: Path, aside: Path) -> None:
    """Move the new directory into place; the old one is restored if that fails."""
    if not path.exists():
        new.rename(path)
        return
    try:
        path.rename(aside)
        new.rename(path)
    except BaseException:
        if not path.exists():  # an interrupt may arrive after either
            aside.rename(path)
        raise


def read_model(path: str | Path) -> Model:
    """Read a model directory; a ModelError names the file and the remedy."""
    path = Path(path)
    manifest, files = read_directory(path)
    try:
        return _model(manifest, files)
    except (SafetensorError, KeyError, TypeError, ValueError) as error:
        raise ModelError(one_line(f"{path}: {error}; restore the model")) from error


def _contents(model: Model) -> dict[str, bytes]:
    arrays: Arrays = {k: np.ascontiguousarray(v) for k, v in model.weights.tensors.items()}
    rows = model.background.lexical
    vectors, scale = quantise_rows(model.background.dense)
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
        WEIGHTS: save(arrays),
        VOCABULARY: "".join(f"{line}\n" for line in model.vocabulary.lines()).encode(),
        BACKGROUND: save(background),
        CHECK: _check_tensors(model.check),
        **({IDF: save({"idf": model.idf.table.astype(np.float16)})} if model.idf else {}),
    }


def _check_tensors(check: SelfCheck) -> bytes:
    return save({"ids": check.ids, "offsets": check.offsets, "vectors": check.vectors})


def _model(manifest: Manifest, files: dict[str, bytes]) -> Model:
    if manifest.vocabulary not in VOCABULARIES:
        raise InputError(f"vocabulary {manifest.vocabulary!r} is unknown; upgrade newsift")
    return Model(
        weights=Weights(AstConfig.from_dict(manifest.config), load(files[WEIGHTS])),
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


def _background(manifest: Manifest, arrays: Arrays) -> Embeddings:
    dense = unit_rows(dequantise_rows(arrays["dense.int8"], arrays["dense.scale"]))
    weights = arrays["lexical.weights"].astype(np.float32)
    words = SparseRows(arrays["lexical.indptr"], arrays["lexical.slots"], weights)
    ends = tuple(arrays["ends"].tolist()) if "ends" in arrays else ()
    return Embeddings(frozen(dense), words.unit(), manifest.mix, manifest.digest, ends)


def _check(content: bytes, side: Side) -> SelfCheck:
    arrays = load(content)
    return SelfCheck(arrays["ids"], arrays["offsets"], arrays["vectors"], side)


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
