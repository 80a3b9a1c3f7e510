import gzip
import hashlib
import json
import os
import pickle
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

from encoder.errors import InputError, ModelError
from encoder.model_directory import (
    BACKGROUND,
    CHECK,
    MAX_FILE_BYTES,
    MAX_MANIFEST_BYTES,
    Model,
    digest_of,
    read_model,
    write_model,
)
from tests.encoder.small_model import LINES, small_model


@pytest.fixture(scope="module")
def model() -> Model:
    return small_model(star="paper")


@pytest.fixture
def folder(model: Model, tmp_path: Path) -> Path:
    write_model(tmp_path / "m", model)
    return tmp_path / "m"


def test_a_model_is_read_as_it_was_written(model: Model, folder: Path) -> None:
    again = read_model(folder)
    for name, value in model.weights.tensors.items():
        np.testing.assert_allclose(again.weights[name], value, rtol=1e-6, atol=0)
    assert again.weights.config == model.weights.config
    assert again.vocabulary.lines() == LINES
    assert (again.mix, again.metrics, again.provenance) == (0.6, {"note": 1}, {})
    np.testing.assert_allclose(again.background.read.dense, model.background.read.dense, atol=2e-2)
    np.testing.assert_array_equal(again.check.vectors, model.check.vectors)
    np.testing.assert_array_equal(again.article_check.vectors, model.article_check.vectors)


def test_the_digest_depends_on_content_alone(model: Model, tmp_path: Path) -> None:
    same = write_model(tmp_path / "a", model)
    assert write_model(tmp_path / "b", replace(model, metrics={"other": 2})) == same
    assert write_model(tmp_path / "c", replace(model, mix=0.5)) != same
    assert write_model(tmp_path / "d", small_model(seed=4)) != same
    fewer = replace(model.article_check, vectors=model.article_check.vectors * np.float32(2))
    assert write_model(tmp_path / "e", replace(model, article_check=fewer)) == same
    assert read_model(tmp_path / "a").digest == same


def sign(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest, and let it vouch for what lies in the folder and for itself."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    for facts in (manifest["files"], manifest["checks"]):
        for name in facts:
            held = (folder / name).read_bytes()
            facts[name] = {"bytes": len(held), "sha256": hashlib.sha256(held).hexdigest()}
    change(manifest)
    manifest["digest"] = digest_of(manifest)
    file.write_text(json.dumps(manifest))


Damage = Callable[[Path], Any]
MALFORMED: dict[str, Callable[[dict[str, Any]], object]] = {
    "files as a list": lambda m: m.update(files=["model.safetensors.gz"]),
    "facts without a digest": lambda m: m["files"]["check.safetensors"].pop("sha256"),
    "negative bytes": lambda m: m["files"]["check.safetensors"].update(bytes=-1),
    "a file more": lambda m: m["files"].update({"\x1b[2J\n": {"bytes": 1, "sha256": "0" * 64}}),
    "a setting more": lambda m: m["config"].update({"\x1b]0;x\x07": 1}),
    "mix beyond its range": lambda m: m.update(mix=1e999),
    "an unknown vocabulary": lambda m: m.update(vocabulary="\n\x1b[31m"),
}
HOSTILE = (b"[" * 10**5, b'{"format":' * 10**5, b"\xff\xfe", b'{"digest": "\\ud800"}', b"1" * 9999)


class Trap:
    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
        return pytest.fail, ("unpickled",)


def changed(name: str, **changes: Callable[[dict[str, Any]], Any]) -> Damage:
    """Change arrays of a file, each to what is made of all of them."""

    def damage(folder: Path) -> None:
        packed = name.endswith(".gz")
        content = (folder / name).read_bytes()
        named = load(gzip.decompress(content) if packed else content)
        made = {key.replace("__", "."): change(named) for key, change in changes.items()}
        held = {key: np.ascontiguousarray(value) for key, value in (named | made).items()}
        (folder / name).write_bytes(gzip.compress(save(held)) if packed else save(held))
        sign(folder, lambda _: None)

    return damage


def edit(key: str, value: Any) -> Damage:
    def damage(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest[key] = value
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return damage


WEIGHTS = "model.safetensors.gz"
OTHER_VOCABULARY = b"[PAD]\n[UNK]\nstorm\n"


def replaced(name: str, content: Callable[[bytes], bytes], vouch: bool = False) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content((folder / name).read_bytes()))
        if vouch:
            sign(folder, lambda _: None)

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    **{name: (partial(sign, change=change), "") for name, change in MALFORMED.items()},
    **{f"JSON {text[:9]!r}": (replaced("manifest.json", lambda _, text=text: text), "")  # type: ignore[misc]
       for text in HOSTILE},
    "a pickle": (
        replaced(WEIGHTS, lambda _: pickle.dumps(Trap()), vouch=True),
        r"model\.safetensors\.gz: is a pickle",
    ),
    "missing file": (lambda f: (f / "idf.safetensors").unlink(), r"idf\.safetensors: No such file"),
    "missing directory": (shutil.rmtree, "no model directory"),
    "no JSON": (replaced("manifest.json", lambda _: b"{"), "restore the model"),
    "truncated": (replaced("model.safetensors.gz", lambda x: x[:-10]), "cut short"),
    "longer": (replaced("check.safetensors", lambda _: b"x" * 10**5), "larger than"),
    "changed": (replaced("check.safetensors", lambda x: x[:-1] + b"\x7f"), "wrong digest"),
    "no gzip": (replaced(WEIGHTS, lambda _: b"words", vouch=True), "restore the model"),
    "half a gzip": (replaced(WEIGHTS, lambda x: x[:-9], vouch=True), "is no whole gzip"),
    "a bomb": (
        replaced(WEIGHTS, lambda _: gzip.compress(bytes(2**20)), vouch=True), "more than eightfold",
    ),
    "unknown format": (edit("format", "newsift.model/9"), "'newsift.model/9', not"),
    "settings changed by hand": (edit("mix", 0.1), "settings were changed by hand"),
    "a name out of the folder": (edit("files", {"../x": {}}), "missing"),
    "another vocabulary": (
        replaced("vocabulary.txt", lambda _: OTHER_VOCABULARY, vouch=True),
        "another model's vocabulary",
    ),
    "NaN": (
        changed(WEIGHTS, embedding__scale=lambda n: n["embedding.scale"] * np.nan), "NaN",
    ),
    "NaN background": (
        changed(BACKGROUND, skim__scale=lambda n: n["skim.scale"] * np.nan), "NaN",
    ),
    "wrong shape": (
        changed(WEIGHTS, layers__0__star__alpha=lambda n: n["layers.0.star.alpha"][:-1]),
        r"of shape \[\d+\], expected",
    ),
    "wrong type": (
        changed(WEIGHTS, residual__gates=lambda n: n["residual.gates"].astype(np.float16)),
        "float16",
    ),
    "alpha out of range": (
        changed(WEIGHTS, layers__0__star__alpha=lambda n: n["layers.0.star.alpha"] * 0),
        "α must lie",
    ),
    "an empty background": (
        changed(BACKGROUND, skim__int8=lambda n: n["skim.int8"][:0],
                skim__scale=lambda n: n["skim.scale"][:0],
                lexical__indptr=lambda n: n["lexical.indptr"][:1],
                lexical__slots=lambda n: n["lexical.slots"][:0],
                lexical__weights=lambda n: n["lexical.weights"][:0]),
        "0 rows; needs some",
    ),
    "more dense than lexical rows": (
        changed(BACKGROUND, skim__int8=lambda n: np.repeat(n["skim.int8"], 2, 0),
                skim__scale=lambda n: np.repeat(n["skim.scale"], 2)),
        "lexical: 400 rows for 800 texts",
    ),
    "a scale that grows the table": (
        changed(BACKGROUND, skim__int8=lambda n: n["skim.int8"][:1]), "no int8 rows with a scale",
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


def refusal(folder: Path) -> str:
    """The message of the refusal, which is one plain line."""
    with pytest.raises(ModelError) as error:
        read_model(folder)
    message = str(error.value)
    assert message.isprintable()
    assert len(message) < 600
    return message


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused_with_one_line(folder: Path, damage: str) -> None:
    harm, message = DAMAGES[damage]
    harm(folder)
    refused = refusal(folder)
    assert re.search(message, refused)
    assert str(folder) in refused


def test_writing_replaces_a_model_whole(model: Model, folder: Path) -> None:
    write_model(folder, replace(model, mix=0.2))
    assert read_model(folder).mix == 0.2
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_files_beside_those_of_a_model_stay(model: Model, folder: Path) -> None:
    (folder / "card.md").write_text("Trained on our own posts.")
    (folder / "figures").mkdir()
    (folder / "figures" / "vocabulary.txt").write_text("not the model's")
    write_model(folder, replace(model, mix=0.2))
    assert read_model(folder).mix == 0.2
    assert (folder / "card.md").read_text() == "Trained on our own posts."
    assert (folder / "figures" / "vocabulary.txt").read_text() == "not the model's"


def test_a_failed_write_keeps_the_old_model(
    model: Model, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk, or one that says so only when the data is flushed to it."""
    fired: list[int] = []

    def full(file: int) -> None:
        fired.append(file)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ModelError, match="No space left"):
        write_model(folder, replace(model, mix=0.2))
    assert fired
    assert read_model(folder).mix == 0.6
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize(
    ("source", "mix"), [("m", 0.6), ("new", 0.2)], ids=["between the renames", "after them"]
)
def test_an_interrupt_of_the_renames_leaves_a_whole_model(
    model: Model, folder: Path, monkeypatch: pytest.MonkeyPatch, source: str, mix: float
) -> None:
    rename = Path.rename

    def interrupted(path: Path, target: Path) -> Path:
        moved = rename(path, target)
        if path.name == source:
            raise KeyboardInterrupt
        return moved

    monkeypatch.setattr(Path, "rename", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_model(folder, replace(model, mix=0.2))
    assert read_model(folder).mix == mix


def test_a_folder_that_is_no_model_is_not_overwritten(model: Model, tmp_path: Path) -> None:
    (tmp_path / "theses").mkdir()
    (tmp_path / "theses" / "chapter.txt").write_text("years of work")
    for manifest in (None, '{"name": "of a web page"}', "[]", "{"):
        if manifest is not None:
            (tmp_path / "theses" / "manifest.json").write_text(manifest)
        with pytest.raises(ModelError, match="is not a model directory"):
            write_model(tmp_path / "theses", model)
    assert (tmp_path / "theses" / "chapter.txt").read_text() == "years of work"
    shutil.rmtree(tmp_path / "theses")


def test_a_mix_without_words_is_refused(model: Model) -> None:
    with pytest.raises(InputError, match="idf"):
        replace(model, idf=None)


def sparse(file: Path) -> None:
    with file.open("wb") as held:
        held.truncate(2**40)


@pytest.mark.parametrize("name", ["manifest.json", "model.safetensors.gz"])
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
    assert name in refusal(folder)


def test_files_above_the_limit_are_refused_whatever_the_manifest_states(folder: Path) -> None:
    file = folder / "model.safetensors.gz"
    with file.open("wb") as held:
        held.truncate(MAX_FILE_BYTES + 1)

    manifest = json.loads((folder / "manifest.json").read_text())
    manifest["files"][file.name]["bytes"] = MAX_FILE_BYTES + 1
    manifest["digest"] = digest_of(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    assert f"Expected `int` <= {MAX_FILE_BYTES}" in refusal(folder)
    (folder / "manifest.json").write_bytes(b" " * (MAX_MANIFEST_BYTES + 1))
    assert f"larger than {MAX_MANIFEST_BYTES} bytes" in refusal(folder)


def test_a_file_may_be_a_link_to_one(folder: Path) -> None:
    (folder / "model.safetensors.gz").rename(folder / "held")
    (folder / "model.safetensors.gz").symlink_to(folder / "held")
    read_model(folder)
