"""A model's manifest: its settings, and what every file of its directory has to hold."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from encoder.errors import ModelError, one_line
from encoder.support.files import read_regular

FORMAT = "newsift.model/1"
MANIFEST = "manifest.json"
WEIGHTS, VOCABULARY, IDF = "model.safetensors", "vocabulary.txt", "idf.safetensors"
BACKGROUND, CHECK = "background.safetensors", "check.safetensors"
ARTICLE_CHECK = "check-articles.safetensors"
PICKLE_HEADS = (b"\x80", b"PK\x03\x04")
MANIFEST_BYTES = 2**20
FILE_BYTES = 2**31
SHA256 = re.compile(r"[0-9a-f]{64}")
KINDS: dict[str, tuple[type, ...]] = {
    "digest": (str,),
    "config": (dict,),
    "vocabulary": (str,),
    "mix": (int, float),
    "files": (dict,),
    "checks": (dict,),
    "metrics": (dict,),
    "provenance": (dict,),
}
# What a better check proves is the code that runs the model: the model itself stays the same, so
# `checks` is no part of the digest.
NEEDED = {"files": {WEIGHTS, VOCABULARY, BACKGROUND, CHECK}, "checks": {ARTICLE_CHECK}}
POSSIBLE = {"files": NEEDED["files"] | {IDF}, "checks": NEEDED["checks"]}


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


def read_directory(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The manifest of a model directory, and the files as it vouches for them; or a refusal."""
    manifest = _read_manifest(folder)
    facts = manifest["files"] | manifest["checks"]
    return manifest, {name: _read_file(folder / name, facts[name]) for name in facts}


def _read_manifest(folder: Path) -> dict[str, Any]:
    file = folder / MANIFEST
    try:
        manifest = json.loads(read_regular(file, MANIFEST_BYTES))
        fault = _fault(manifest)
    except FileNotFoundError as error:
        raise ModelError(f"{folder}: no model directory ({MANIFEST} is missing)") from error
    except (OSError, ValueError, RecursionError) as error:
        raise ModelError(
            one_line(f"{file}: cannot be read as JSON ({error}); restore the model")
        ) from error
    if fault is not None:
        raise ModelError(one_line(f"{file}: {fault}"))
    return dict(manifest)


def _fault(manifest: Any) -> str | None:
    """What is wrong with a manifest and what to do, if anything is."""
    found = manifest.get("format") if isinstance(manifest, dict) else None
    if found != FORMAT:
        return f"format {found!r} is unknown, expected {FORMAT!r}; upgrade newsift"
    missing = KINDS.keys() - manifest.keys()
    if missing:
        return f"{', '.join(sorted(missing))} is missing; restore the model"
    for key, kinds in KINDS.items():
        if not isinstance(manifest[key], kinds) or isinstance(manifest[key], bool):
            kind = type(manifest[key]).__name__
            return f"{key} is a {kind}, expected {kinds[-1].__name__}; restore the model"
    for key in NEEDED:
        fault = _files_fault(manifest[key], NEEDED[key], POSSIBLE[key])
        if fault is not None:
            return f"{fault}; restore the model"
    if digest_of(manifest) != manifest["digest"]:
        return "wrong digest; the settings were changed by hand"
    return None


def _files_fault(files: dict[str, Any], needed: set[str], possible: set[str]) -> str | None:
    """What is wrong with what a manifest says of files, if anything is."""
    missing, odd = needed - files.keys(), files.keys() - possible
    if missing:
        return f"{', '.join(sorted(missing))} is missing"
    if odd:
        return f"{min(odd)!r} is no file of a model"
    for name, facts in files.items():
        if not isinstance(facts, dict) or facts.keys() != {"bytes", "sha256"}:
            return f"{name}: needs bytes and sha256 and nothing else"
        size, sum_ = facts["bytes"], facts["sha256"]
        if type(size) is not int or not 0 <= size <= FILE_BYTES:
            return f"{name}: bytes {size!r} is no whole number up to {FILE_BYTES}"
        if type(sum_) is not str or not SHA256.fullmatch(sum_):
            return f"{name}: sha256 {sum_!r} is not 64 hex digits"
    return None


def _read_file(file: Path, facts: Mapping[str, Any]) -> bytes:
    size = facts["bytes"]
    try:
        content = read_regular(file, size)
    except OSError as error:
        raise ModelError(f"{file}: {error.strerror}; restore the model directory") from error
    if file.name != VOCABULARY and content.startswith(PICKLE_HEADS):
        raise ModelError(
            f"{file}: is a pickle, which newsift never opens; export it as safetensors"
        )
    if len(content) < size:
        raise ModelError(f"{file}: cut short, {len(content)} of {size} bytes; restore the model")
    if hashlib.sha256(content).hexdigest() != facts["sha256"]:
        raise ModelError(
            f"{file}: wrong digest, the file is another model's or damaged; restore it"
        )
    return content
