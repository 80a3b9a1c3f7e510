"""Hostile and malformed model directories are refused in one line."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from encoder.errors import ModelError
from encoder.model_directory import (
    BACKGROUND,
    CHECK,
    FILE_BYTES,
    MANIFEST_BYTES,
    digest_of,
    read_model,
)
from tests.encoder.directories import sign, sound
from tests.worker.fake import Command


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return sound(tmp_path_factory.mktemp("models") / "m")


@pytest.fixture
def folder(content: dict[str, bytes], tmp_path: Path) -> Path:
    for name, held in content.items():
        (tmp_path / name).write_bytes(held)
    return tmp_path


def refused(folder: Path) -> str:
    """The message of the refusal, which is one plain line."""
    with pytest.raises(ModelError) as error:
        read_model(folder)
    message = str(error.value)
    assert message.isprintable()
    assert len(message) < 600
    return message


MALFORMED: dict[str, Callable[[dict[str, Any]], object]] = {
    "files as a list": lambda m: m.update(files=["model.safetensors"]),
    "facts as null": lambda m: m["files"].update({"check.safetensors": None}),
    "facts without a digest": lambda m: m["files"]["check.safetensors"].pop("sha256"),
    "bytes as a text": lambda m: m["files"]["check.safetensors"].update(bytes="9"),
    "negative bytes": lambda m: m["files"]["check.safetensors"].update(bytes=-1),
    "a file more": lambda m: m["files"].update({"\x1b[2J\n": {"bytes": 1, "sha256": "0" * 64}}),
    "a setting of another type": lambda m: m["config"].update(dim="12"),
    "a setting more": lambda m: m["config"].update({"\x1b]0;x\x07": 1}),
    "mix as a text": lambda m: m.update(mix="0.6"),
    "mix beyond its range": lambda m: m.update(mix=1e999),
    "an unknown vocabulary": lambda m: m.update(vocabulary="\n\x1b[31m"),
}


@pytest.mark.parametrize("fault", MALFORMED)
def test_a_malformed_manifest_is_refused(folder: Path, fault: str) -> None:
    sign(folder, MALFORMED[fault])
    assert str(folder) in refused(folder)


def test_the_command_line_exits_with_2(newsift: Command, folder: Path) -> None:
    sign(folder, MALFORMED["files as a list"])
    done = newsift("embed", "--model", folder, stdin=b"storm")
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert "Expected `object`, got `array` - at `$.files`" in done.err


@pytest.mark.parametrize(
    "text",
    [b"[" * 10**5, b'{"format":' * 10**5, b"\xff\xfe", b'{"digest": "\\ud800"}', b"1" * 9999],
)
def test_hostile_json_is_refused(folder: Path, text: bytes) -> None:
    (folder / "manifest.json").write_bytes(text)
    refused(folder)


def changed(name: str, **changes: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change arrays of a file, each to what is made of all of them."""

    def spoil(folder: Path) -> None:
        named = load((folder / name).read_bytes())
        made = {key.replace("_", "."): change(named) for key, change in changes.items()}
        held = {key: np.ascontiguousarray(value) for key, value in (named | made).items()}
        (folder / name).write_bytes(save(held))
        sign(folder, lambda _: None)

    return spoil


NONSENSE: dict[str, tuple[Callable[[Path], None], str]] = {
    "an empty background": (
        changed(BACKGROUND, dense_int8=lambda n: n["dense.int8"][:0],
                dense_scale=lambda n: n["dense.scale"][:0],
                lexical_indptr=lambda n: n["lexical.indptr"][:1],
                lexical_slots=lambda n: n["lexical.slots"][:0],
                lexical_weights=lambda n: n["lexical.weights"][:0]),
        "0 rows; needs some",
    ),
    "more dense than lexical rows": (
        changed(BACKGROUND, dense_int8=lambda n: np.repeat(n["dense.int8"], 2, 0),
                dense_scale=lambda n: np.repeat(n["dense.scale"], 2)),
        "lexical: 400 rows for 800 texts",
    ),
    "a scale that grows the table": (
        changed(BACKGROUND, dense_int8=lambda n: n["dense.int8"][:1]), "no int8 rows with a scale",
    ),
    "a self-check of no text": (
        changed(CHECK, ids=lambda n: n["ids"][:0], offsets=lambda n: n["offsets"][:1],
                vectors=lambda n: n["vectors"][:0]),
        "prove nothing",
    ),
    "ids outside the vocabulary": (
        changed(CHECK, ids=lambda n: n["ids"] + np.int32(10**6)), "ids outside the vocabulary of",
    ),
    "offsets that fall": (changed(CHECK, offsets=lambda n: n["offsets"][::-1]), "do not rise"),
}  # fmt: skip


@pytest.mark.parametrize("fault", NONSENSE)
def test_a_model_without_meaning_is_refused(folder: Path, fault: str) -> None:
    spoil, message = NONSENSE[fault]
    spoil(folder)
    assert message in refused(folder)


def sparse(file: Path) -> None:
    with file.open("wb") as held:
        held.truncate(2**40)


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors"])
@pytest.mark.parametrize(
    "create",
    [os.mkfifo, lambda file: file.symlink_to("/dev/zero"), sparse, Path.mkdir],
    ids=["pipe", "device", "sparse", "folder"],
)
def test_pipes_devices_and_huge_files_are_not_read(
    folder: Path, name: str, create: Callable[[Path], None]
) -> None:
    (folder / name).unlink()
    create(folder / name)
    assert name in refused(folder)


def test_files_above_the_limit_are_refused_whatever_the_manifest_states(folder: Path) -> None:
    file = folder / "model.safetensors"
    with file.open("wb") as held:
        held.truncate(FILE_BYTES + 1)

    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][file.name]["bytes"] = FILE_BYTES + 1
    manifest["digest"] = digest_of(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert f"Expected `int` <= {FILE_BYTES}" in refused(folder)
    (folder / "manifest.json").write_bytes(b" " * (MANIFEST_BYTES + 1))
    assert f"larger than {MANIFEST_BYTES} bytes" in refused(folder)


def test_a_file_may_be_a_link_to_one(folder: Path) -> None:
    (folder / "model.safetensors").rename(folder / "held")
    (folder / "model.safetensors").symlink_to(folder / "held")
    read_model(folder)
