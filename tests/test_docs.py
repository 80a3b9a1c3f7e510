"""The README: its Python runs, its commands and targets exist, and none is left out."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pytest

from worker.cli import COMMANDS
from worker.config import KEYS

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
SHELL = "".join(text for kind, text in BLOCKS if kind == "console")


def test_the_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    examples = [text for kind, text in BLOCKS if kind == "python"]
    for text in examples:
        exec(compile(text, "README.md", "exec"), names)
    assert np.array_equal(np.asarray(names["matches"]), [[True], [False]])
    assert len(examples) > 0


def test_every_command_is_documented_and_every_documented_command_exists() -> None:
    assert set(re.findall(r"`newsift ([\w-]+)", README)) == set(COMMANDS)
    assert set(re.findall(r"^\$ newsift ([\w-]+)", SHELL, re.MULTILINE)) <= set(COMMANDS)


def test_every_make_target_that_the_readme_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"make (?:[A-Z]+=\S+ )*([a-z-]+)", SHELL)) <= targets
    assert {"demo", "test", "lint", "bench"} <= targets


def test_files_that_the_pages_name_exist() -> None:
    for page in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")]:
        for path in re.findall(r"\b(?:worker|encoder|train|bench|tests)/[\w/.-]+\.\w+",
                               page.read_text("utf-8")):  # fmt: skip
            assert (ROOT / path).exists(), (page.name, path)


def test_every_alert_has_its_paragraph() -> None:
    rules = (ROOT / "deploy/prometheus/rules.yml").read_text("utf-8")
    told = (ROOT / "docs/operating.md").read_text("utf-8")
    alerts = re.findall(r"- alert: (\w+)", rules)
    assert re.findall(r"^### (\w+)$", told, re.MULTILINE) == alerts


def test_every_limit_stands_in_the_security_page() -> None:
    told = (ROOT / "SECURITY.md").read_text("utf-8")
    assert re.findall(r"^\| `limits\.(\w+)`", told, re.MULTILINE) == [*KEYS["limits"]]


def test_the_changelog_knows_this_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert changelog.split("## ")[1].startswith(project["version"])
