import hashlib
import json
from pathlib import Path

import pytest

from encoder.model_directory import write_model
from tests.encoder.small import small_model
from tests.worker.fake import Command


@pytest.fixture(autouse=True)
def loaded_once() -> None:
    """Here models are loaded by their names."""


def test_from_a_directory_to_a_name_and_back(newsift: Command, tmp_path: Path) -> None:
    made = write_model(tmp_path / "small", small_model())
    (tmp_path / "small.md").write_text("# Small\n\nReads \x1b[31mlittle.\n")
    file = tmp_path / "small.tar"
    packed = newsift("models", "pack", tmp_path / "small", "--out", file)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    assert (packed.code, packed.out, packed.err) == (0, f"{digest}  {file}\n", "")
    done = newsift("models", "add", file, "--digest", digest.upper())
    assert (done.code, done.out) == (0, "")
    assert "--model small" in done.err
    rows = [json.loads(line) for line in newsift("models", "list", "--json").out.splitlines()]
    assert [(r["name"], r["added"]) for r in rows] == [("default", False), ("small", True)]
    assert rows[0]["about"].startswith("English posts and articles")
    assert (rows[1]["digest"], rows[1]["path"]) == (made, str(tmp_path / "state/models/small"))
    held = sum(f.stat().st_size for f in (tmp_path / "small").iterdir() if f.suffix != ".json")
    assert rows[1]["bytes"] == held
    shown = newsift("models", "list").out
    assert made[:12] in shown
    assert "\x1b" not in shown
    assert newsift("models", "remove", "small").code == 0
    assert newsift("models", "list").out.count("\n") == 2
