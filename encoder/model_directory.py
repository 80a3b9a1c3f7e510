"""Read and write model directories: files, and a manifest with settings, sizes and digests."""

import hashlib
import json
import os
import shutil
import tempfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from encoder.embeddings import Background, Embeddings, unit_rows
from encoder.errors import InputError, ModelError, one_line
from encoder.model.config import MAX_TOKENS, AstConfig, Side
from encoder.model.star_settings import StarSettings
from encoder.model.star_weights import StarWeights
from encoder.model.weights import F32, I32, I64, Weights, dequantise_rows, quantise_rows
from encoder.score.lexical import Idf, SparseRows
from encoder.support.files import read_regular
from encoder.support.named import VOCABULARY
from encoder.support.readonly import frozen
from encoder.text.vocabulary import VOCABULARIES, Vocabulary, WordPiece

FORMAT_PREFIX = "newsift.model/"
FORMAT = f"{FORMAT_PREFIX}4"
MANIFEST = "manifest.json"
WEIGHTS, IDF = "model.safetensors.gz", "idf.safetensors"
BACKGROUND, CHECK = "background.safetensors.gz", "check.safetensors"
ARTICLE_CHECK = "check-articles.safetensors"
STAR, STAR_CHECK = "star.safetensors.gz", "check-star.safetensors"
REQUIRED_FILES = {WEIGHTS, VOCABULARY, BACKGROUND, CHECK}
ALL_FILES = {MANIFEST, *REQUIRED_FILES, IDF, ARTICLE_CHECK, STAR, STAR_CHECK}
PICKLE_HEADS = (b"\x80", b"PK\x03\x04")
MAX_MANIFEST_BYTES = 2**20
GZIP_WBITS = zlib.MAX_WBITS | 16  # in the words of zlib
MAX_FILE_BYTES = 2**31
UNPACK_BYTES = 2**16
MOST_UNPACKED = 8 * UNPACK_BYTES + 2**10  # Huffman coding alone takes a bit for each byte
Arrays = dict[str, NDArray[Any]]


class FileFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    bytes: Annotated[int, msgspec.Meta(ge=0, le=MAX_FILE_BYTES)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Manifest(msgspec.Struct, frozen=True):
    digest: str
    config: dict[str, Any]
    star: dict[str, Any] | None
    vocabulary: str
    mix: float
    files: dict[str, FileFacts]
    # These files test the code that runs the model, so the digest does not include them.
    checks: dict[str, FileFacts]
    metrics: dict[str, Any]
    provenance: dict[str, Any]

    def __post_init__(self) -> None:
        files, checks = set(REQUIRED_FILES), {ARTICLE_CHECK}
        if self.star is not None:
            files.add(STAR)
            checks.add(STAR_CHECK)
        if different := (self.files.keys() ^ files) - {IDF} or self.checks.keys() ^ checks:
            names = ", ".join(sorted(different))
            raise ValueError(f"{names} is missing, or is not a file of a model")


def digest_of(manifest: Mapping[str, Any]) -> str:
    """The digest of everything that affects embeddings or thresholds; notes are excluded."""
    content = [manifest[key] for key in ("format", "config", "star", "vocabulary", "mix", "files")]
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def facts_of(files: Mapping[str, bytes]) -> dict[str, dict[str, int | str]]:
    return {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in sorted(files.items())
    }


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a model directory and check its digest."""
    file = folder / MANIFEST
    try:
        content = msgspec.json.decode(read_regular(file, MAX_MANIFEST_BYTES))
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


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """The files of a model directory; each is read, and checked, when it is needed."""

    folder: Path
    manifest: Manifest

    def __contains__(self, name: str) -> bool:
        return name in self.manifest.files

    def __getitem__(self, name: str) -> bytes:
        facts = self.manifest.files | self.manifest.checks
        return _read_file(self.folder / name, facts[name])


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
class Star:
    """The reader of articles, and of the posts that may match."""

    weights: StarWeights
    check: SelfCheck  # of chunks, each with its relay and its end

    def __post_init__(self) -> None:
        settings, ids = self.weights.settings, self.check.ids
        if self.check.vectors.shape[1] != settings.dim or np.diff(self.check.offsets).min() < 1:
            raise InputError(f"{STAR_CHECK}: is not of chunks and vectors {settings.dim} wide")
        if not 0 <= ids.min() <= ids.max() < settings.vocabulary:
            raise InputError(f"{STAR_CHECK}: ids outside the vocabulary of {settings.vocabulary}")


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    weights: Weights  # of the gated mean
    vocabulary: Vocabulary
    idf: Idf | None
    mix: float
    background: Background  # everyday posts, for automatic thresholds
    check: SelfCheck  # of posts
    article_check: SelfCheck  # short texts, one of maximal length, and one without tokens
    star: Star | None = None  # without one the gated mean reads everything
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
        both = self.background.read, self.background.skim
        if not len(both[0]) or not all(rows.is_unit() for rows in both):
            rule = "needs some, each of length 1 or zero, and no NaN"
            raise InputError(f"{BACKGROUND}: {len(both[0])} rows; {rule}")
        dim = self.weights.config.dim
        checks = self.check, self.article_check
        widths = {rows.dense.shape[1] for rows in both}
        widths |= {check.vectors.shape[1] for check in checks}
        if self.star is not None:
            widths.add(self.star.weights.settings.dim)
            self._refuse_other_pieces(self.star.weights.settings.pieces)
        if widths != {dim}:
            raise InputError(f"{BACKGROUND}, {CHECK}, {ARTICLE_CHECK}: vectors are not {dim} wide")
        for check in checks:
            if not 0 <= check.ids.min(initial=0) <= check.ids.max(initial=0) < words:
                raise InputError(f"{CHECK}, {ARTICLE_CHECK}: ids outside the vocabulary of {words}")

    def _refuse_other_pieces(self, pieces: int) -> None:
        """The star's word pieces are the first of the gated mean's, which has whole words too."""
        if self.vocabulary.kind != WordPiece.kind or self.vocabulary.size < pieces:
            raise InputError(
                f"{VOCABULARY}: {self.vocabulary.size} {self.vocabulary.kind} entries, the star "
                f"needs {pieces} word pieces"
            )


def write_model(path: str | Path, model: Model) -> str:
    """Write a model directory and return its digest."""
    files, checks = _contents(model), {ARTICLE_CHECK: _check_tensors(model.article_check)}
    if model.star is not None:
        checks[STAR_CHECK] = _check_tensors(model.star.check)
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
                replaced = {str(path): ALL_FILES}  # in subfolders nothing is
                shutil.copytree(
                    path, new, symlinks=True, dirs_exist_ok=True,
                    ignore=lambda folder, _: replaced.get(folder, set()),
                )  # fmt: skip
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
        content = msgspec.json.decode(read_regular(path / MANIFEST, MAX_MANIFEST_BYTES))
    except (OSError, RecursionError, msgspec.MsgspecError):
        content = None
    if not isinstance(content, dict) or not str(content.get("format")).startswith(FORMAT_PREFIX):
        raise ModelError(f"{path}: exists and is not a model directory; name another place")


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
    """Read a model directory; every file is checked against the manifest."""
    path = Path(path)
    manifest = read_manifest(path)
    try:
        return _model(manifest, ModelFiles(path, manifest))
    except (SafetensorError, KeyError, TypeError, ValueError, zlib.error) as error:
        raise ModelError(one_line(f"{path}: {error}; restore the model")) from error


def _contents(model: Model) -> dict[str, bytes]:
    rows = model.background.read.lexical
    background: Arrays = {
        **_quantised("skim", model.background.skim),
        **(_quantised("read", model.background.read) if model.star else {}),
        "lexical.indptr": rows.indptr,
        "lexical.slots": rows.slots,
        "lexical.weights": rows.weights.astype(np.float16),
    }
    return {
        WEIGHTS: _packed(_contiguous(model.weights.tensors)),
        VOCABULARY: "".join(f"{line}\n" for line in model.vocabulary.lines()).encode(),
        BACKGROUND: _packed(background),
        CHECK: _check_tensors(model.check),
        **({IDF: save({"idf": model.idf.table.astype(np.float16)})} if model.idf else {}),
        **({STAR: _packed(_contiguous(model.star.weights.tensors))} if model.star else {}),
    }


def _contiguous(tensors: Mapping[str, NDArray[Any]]) -> Arrays:
    return {name: np.asarray(value, order="C") for name, value in tensors.items()}


def _packed(tensors: Arrays) -> bytes:
    """Codes take less than eight bits each when they are compressed; they never repeat."""
    pack = zlib.compressobj(wbits=GZIP_WBITS, strategy=zlib.Z_HUFFMAN_ONLY)
    return pack.compress(save(tensors)) + pack.flush()


def _unpacked(files: ModelFiles, name: str) -> Arrays:
    return load(_decompress(files[name], name))


def _decompress(packed: bytes, name: str) -> bytes:
    """Step by step: at once it takes twice the memory."""
    unpack, content = zlib.decompressobj(GZIP_WBITS), BytesIO()
    for start in range(0, len(packed), UNPACK_BYTES):
        piece = packed[start : start + UNPACK_BYTES]
        content.write(unpack.decompress(piece, MOST_UNPACKED))
        if unpack.unconsumed_tail:
            raise InputError(f"{name}: is packed more than eightfold, which no model is")
        if content.tell() > MAX_FILE_BYTES:
            break
    if not unpack.eof or unpack.unused_data:
        raise InputError(f"{name}: is no whole gzip of at most {MAX_FILE_BYTES} bytes")
    return content.getvalue()


def _quantised(name: str, rows: Embeddings) -> Arrays:
    codes, scales = quantise_rows(rows.dense)
    return {f"{name}.int8": codes, f"{name}.scale": scales}


def _check_tensors(check: SelfCheck) -> bytes:
    return save({"ids": check.ids, "offsets": check.offsets, "vectors": check.vectors})


def _model(manifest: Manifest, files: ModelFiles) -> Model:
    if manifest.vocabulary not in VOCABULARIES:
        raise InputError(f"vocabulary {manifest.vocabulary!r} is unknown; upgrade newsift")
    return Model(
        weights=Weights(AstConfig.from_dict(manifest.config), _unpacked(files, WEIGHTS)),
        vocabulary=VOCABULARIES[manifest.vocabulary].from_lines(
            files[VOCABULARY].decode().split("\n")[:-1]
        ),
        idf=Idf(load(files[IDF])["idf"].astype(np.float32)) if IDF in files else None,
        mix=manifest.mix,
        background=_background(manifest, _unpacked(files, BACKGROUND)),
        star=None if manifest.star is None else _star(manifest.star, files),
        check=_check(files[CHECK], Side.POST),
        article_check=_check(files[ARTICLE_CHECK], Side.ARTICLE),
        metrics=manifest.metrics,
        provenance=manifest.provenance,
        digest=manifest.digest,
    )


def _star(settings: dict[str, Any], files: ModelFiles) -> Star:
    weights = StarWeights(StarSettings.from_dict(settings), _unpacked(files, STAR))
    return Star(weights, _check(files[STAR_CHECK], Side.POST))


def _background(manifest: Manifest, arrays: Arrays) -> Background:
    weights = arrays["lexical.weights"].astype(np.float32)
    words = SparseRows(arrays["lexical.indptr"], arrays["lexical.slots"], weights).unit()

    def rows(name: str) -> Embeddings:
        dense = unit_rows(dequantise_rows(arrays[f"{name}.int8"], arrays[f"{name}.scale"]))
        return Embeddings(frozen(dense), words, manifest.mix, manifest.digest)

    skim = rows("skim")
    read = skim if manifest.star is None else rows("read")
    return Background(read, replace(skim, skimmed=True))


def _check(content: bytes, side: Side) -> SelfCheck:
    arrays = load(content)
    return SelfCheck(arrays["ids"], arrays["offsets"], arrays["vectors"], side)


def _manifest(model: Model, files: dict[str, bytes], checks: dict[str, bytes]) -> dict[str, Any]:
    manifest: dict[str, Any] = {
        "format": FORMAT,
        "config": model.weights.config.as_dict(),
        "star": None if model.star is None else model.star.weights.settings.as_dict(),
        "vocabulary": model.vocabulary.kind,
        "mix": model.mix,
        "files": facts_of(files),
        "checks": facts_of(checks),
        "metrics": dict(model.metrics),
        "provenance": dict(model.provenance),
    }
    return {"digest": digest_of(manifest), **manifest}
