"""Randomly changed model directories are read, or refused in one line."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.errors import ModelError
from encoder.model_directory import (
    ARTICLE_CHECK,
    BACKGROUND,
    CHECK,
    IDF,
    MANIFEST,
    VOCABULARY,
    WEIGHTS,
    Manifest,
    digest_of,
    read_model,
)
from tests.encoder.directories import sign, sound


@pytest.fixture(scope="module")
def content(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return sound(tmp_path_factory.mktemp("models") / "m")


def written(content: dict[str, bytes], factory: pytest.TempPathFactory) -> Path:
    folder = factory.mktemp("m")
    for name, held in content.items():
        (folder / name).write_bytes(held)
    return folder


def message(folder: Path) -> str:
    """The message of a refusal, or nothing."""
    try:
        read_model(folder)
    except ModelError as error:
        return str(error)
    return ""


KEYS = [*Manifest.__struct_fields__, "format", "files.check.safetensors", "config.dim"]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=6,
)  # fmt: skip


@settings(max_examples=150, deadline=None)
@given(key=st.sampled_from(KEYS), value=json_values)
def test_any_value_in_a_manifest_is_read_or_refused(
    content: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory, key: str, value: Any
) -> None:
    manifest = json.loads(content["manifest.json"])
    outer, _, inner = key.partition(".")
    if inner:
        manifest[outer][inner] = value
    else:
        manifest[outer] = value
    if key != "digest":
        with suppress(UnicodeEncodeError):
            manifest["digest"] = digest_of(manifest)
    folder = written(content | {"manifest.json": json.dumps(manifest).encode()}, tmp_path_factory)
    assert message(folder).isprintable()


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from([MANIFEST, CHECK, IDF, BACKGROUND, WEIGHTS, VOCABULARY, ARTICLE_CHECK]),
    edits=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=6),
    head=st.booleans(),
)
def test_any_changed_bytes_are_read_or_refused(
    content: dict[str, bytes],
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    edits: list[tuple[int, int]],
    head: bool,
) -> None:
    mutant = bytearray(content[name])
    for place, byte in edits:
        mutant[place % min(len(mutant), 300 if head else len(mutant))] = byte
    folder = written(content | {name: bytes(mutant)}, tmp_path_factory)
    if name != "manifest.json":
        sign(folder, lambda _: None)
    with np.errstate(all="ignore"):
        assert message(folder).isprintable()
