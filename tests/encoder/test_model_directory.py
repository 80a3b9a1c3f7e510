"""Model directories: what is written comes back, and what is damaged is refused in one line."""

import json
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load, save

import encoder
from encoder.errors import InputError, ModelError
from encoder.model_directory import Model, read_model, write_model
from tests.encoder.directories import sign
from tests.encoder.small import LINES, small_model


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
    np.testing.assert_allclose(again.background.dense, model.background.dense, atol=6e-3)
    np.testing.assert_array_equal(again.check.vectors, model.check.vectors)
    np.testing.assert_array_equal(again.article_check.vectors, model.article_check.vectors)


def test_the_languages_of_a_background_are_read(model: Model, tmp_path: Path) -> None:
    several = replace(model, background=replace(model.background, ends=(100, 400)))
    write_model(tmp_path / "m", several)
    assert read_model(tmp_path / "m").background.ends == (100, 400)
    with encoder.load(tmp_path / "m", "cpu") as enc:
        assert list(map(len, enc.background.by_language())) == [100, 300]


def test_the_digest_depends_on_content_alone(model: Model, tmp_path: Path) -> None:
    same = write_model(tmp_path / "a", model)
    assert write_model(tmp_path / "b", replace(model, metrics={"other": 2})) == same
    assert write_model(tmp_path / "c", replace(model, mix=0.5)) != same
    assert write_model(tmp_path / "d", small_model(seed=4)) != same
    fewer = replace(model.article_check, vectors=model.article_check.vectors * np.float32(2))
    assert write_model(tmp_path / "e", replace(model, article_check=fewer)) == same
    assert read_model(tmp_path / "a").digest == same


def test_no_python_object_is_ever_unpickled(folder: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return pytest.fail, ("unpickled",)

    (folder / "model.safetensors").write_bytes(pickle.dumps(Trap()))
    sign(folder, lambda _: None)
    with pytest.raises(ModelError, match=r"model\.safetensors: is a pickle"):
        read_model(folder)


Damage = Callable[[Path], Any]


def rewrite(name: str, key: str, change: Callable[[Any], Any]) -> Damage:
    def damage(folder: Path) -> None:
        named = load((folder / name).read_bytes())
        named[key] = change(named[key])
        (folder / name).write_bytes(save(named))
        sign(folder, lambda _: None)

    return damage


def edit(key: str, value: Any) -> Damage:
    def damage(folder: Path) -> None:
        manifest = json.loads((folder / "manifest.json").read_text())
        manifest[key] = value
        (folder / "manifest.json").write_text(json.dumps(manifest))

    return damage


OTHER_VOCABULARY = b"[PAD]\n[UNK]\nstorm\n"


def replaced(name: str, content: Callable[[bytes], bytes], vouch: bool = False) -> Damage:
    def damage(folder: Path) -> None:
        (folder / name).write_bytes(content((folder / name).read_bytes()))
        if vouch:
            sign(folder, lambda _: None)

    return damage


DAMAGES: dict[str, tuple[Damage, str]] = {
    "missing file": (lambda f: (f / "idf.safetensors").unlink(), r"idf\.safetensors: No such file"),
    "missing directory": (shutil.rmtree, "no model directory"),
    "no JSON": (replaced("manifest.json", lambda _: b"{"), "restore the model"),
    "truncated": (replaced("model.safetensors", lambda x: x[:-10]), "cut short"),
    "longer": (replaced("check.safetensors", lambda _: b"x" * 10**5), "larger than"),
    "changed": (replaced("check.safetensors", lambda x: x[:-1] + b"\x7f"), "wrong digest"),
    "unknown format": (edit("format", "newsift.model/9"), "'newsift.model/9', not"),
    "settings changed by hand": (edit("mix", 0.1), "settings were changed by hand"),
    "a name out of the folder": (edit("files", {"../x": {}}), "missing"),
    "another vocabulary": (
        replaced("vocabulary.txt", lambda _: OTHER_VOCABULARY, vouch=True),
        "another model's vocabulary",
    ),
    "NaN": (rewrite("model.safetensors", "embedding.scale", lambda a: a * np.nan), "NaN"),
    "NaN background": (
        rewrite("background.safetensors", "dense.scale", lambda a: a * np.nan), "NaN",
    ),
    "wrong shape": (
        rewrite("model.safetensors", "layers.0.ring.query.weight", lambda a: a[:-1].copy()),
        r"of shape \[11, 12\], expected",
    ),
    "wrong type": (
        rewrite("model.safetensors", "residual.gates", lambda a: a.astype(np.float16)), "float16",
    ),
    "alpha out of range": (
        rewrite("model.safetensors", "layers.0.star.alpha", lambda a: a * 0), "α must lie",
    ),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_model_is_refused_with_one_line(folder: Path, damage: str) -> None:
    harm, message = DAMAGES[damage]
    harm(folder)
    with pytest.raises(ModelError, match=message) as refused:
        read_model(folder)
    assert "\n" not in str(refused.value)
    assert str(folder) in str(refused.value)


def test_writing_replaces_a_model_whole(model: Model, folder: Path) -> None:
    write_model(folder, replace(model, mix=0.2))
    assert read_model(folder).mix == 0.2
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_a_failed_write_keeps_the_old_model(
    model: Model, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fired: list[Path] = []

    def full(path: Path, content: bytes) -> int:
        fired.append(path)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ModelError, match="No space left"):
        write_model(folder, replace(model, mix=0.2))
    assert fired
    assert read_model(folder).mix == 0.6
    assert [p.name for p in folder.parent.iterdir()] == [folder.name]


def test_a_folder_that_is_no_model_is_not_overwritten(model: Model, tmp_path: Path) -> None:
    (tmp_path / "theses").mkdir()
    (tmp_path / "theses" / "chapter.txt").write_text("years of work")
    with pytest.raises(ModelError, match="is no model directory"):
        write_model(tmp_path / "theses", model)
    assert (tmp_path / "theses" / "chapter.txt").read_text() == "years of work"
    shutil.rmtree(tmp_path / "theses")


def test_a_mix_without_words_is_refused(model: Model) -> None:
    with pytest.raises(InputError, match="idf"):
        replace(model, idf=None)
