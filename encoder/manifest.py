"""A model's manifest: its settings, and what every file of its directory has to hold."""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec

from encoder.errors import ModelError, one_line
from encoder.support.files import read_regular

FORMAT = "newsift.model/2"
MANIFEST = "manifest.json"
WEIGHTS, VOCABULARY, IDF = "model.safetensors", "vocabulary.txt", "idf.safetensors"
BACKGROUND, CHECK = "background.safetensors", "check.safetensors"
ARTICLE_CHECK = "check-articles.safetensors"
NEEDED = {WEIGHTS, VOCABULARY, BACKGROUND, CHECK}
PICKLE_HEADS = (b"\x80", b"PK\x03\x04")
MANIFEST_BYTES = 2**20
FILE_BYTES = 2**31


class FileFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a file has to hold, to the byte."""

    bytes: Annotated[int, msgspec.Meta(ge=0, le=FILE_BYTES)]
    sha256: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]


class Manifest(msgspec.Struct, frozen=True):
    """What manifest.json says of its model."""

    digest: str
    config: dict[str, Any]
    vocabulary: str
    mix: float
    files: dict[str, FileFacts]
    # What a better check proves is the code that runs the model: the model itself stays the same,
    # so these files are no part of the digest.
    checks: dict[str, FileFacts]
    metrics: dict[str, Any]
    provenance: dict[str, Any]

    def __post_init__(self) -> None:
        odd = (self.files.keys() ^ NEEDED) - {IDF} or self.checks.keys() ^ {ARTICLE_CHECK}
        if odd:
            raise ValueError(f"{', '.join(sorted(odd))} is missing, or is no file of a model")


def digest_of(manifest: Mapping[str, Any]) -> str:
    """The digest of what decides an embedding or a threshold: settings and files, not the notes."""
    content = [manifest[key] for key in ("format", "config", "vocabulary", "mix", "files")]
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def facts_of(files: Mapping[str, bytes]) -> dict[str, dict[str, int | str]]:
    """What the manifest says of these files."""
    return {
        name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for name, content in sorted(files.items())
    }


def read_directory(folder: Path) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest of a model directory, and the files as it vouches for them; or a refusal."""
    manifest = read_manifest(folder)
    facts = manifest.files | manifest.checks
    return manifest, {name: _read_file(folder / name, facts[name]) for name in facts}


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a model directory, which vouches for its digest."""
    file = folder / MANIFEST
    try:
        given = msgspec.json.decode(read_regular(file, MANIFEST_BYTES))
        found = given.get("format") if isinstance(given, dict) else None
        if found != FORMAT:
            told = f"format {found!r}, not {FORMAT!r}; train it again, or upgrade newsift"
            raise ModelError(one_line(f"{file}: {told}"))
        manifest = msgspec.convert(given, Manifest)
    except FileNotFoundError as error:
        raise ModelError(f"{folder}: no model directory ({MANIFEST} is missing)") from error
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise ModelError(one_line(f"{file}: cannot be read: {error}; restore the model")) from error
    if digest_of(given) != manifest.digest:
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
        told = f"cut short, {len(content)} of {facts.bytes} bytes"
        raise ModelError(f"{file}: {told}; restore the model")
    if hashlib.sha256(content).hexdigest() != facts.sha256:
        raise ModelError(
            f"{file}: wrong digest, the file is another model's or damaged; restore it"
        )
    return content
