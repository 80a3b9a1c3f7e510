"""The documents: their examples run, their commands and targets exist, and none is left out."""

import csv
import json
import re
import shlex
import shutil
import tomllib
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from newsift.cli import COMMANDS, cli
from worker.config import KEYS

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
README = (ROOT / "README.md").read_text("utf-8")
SAMPLES = ROOT / "worker" / "samples"


def blocks(page: str, kind: str) -> list[str]:
    """The code blocks of one kind on a page."""
    fences = re.findall(r"^```(\w+)\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [text for name, text in fences if name == kind]


def test_the_python_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    names: dict[str, object] = {}
    for text in blocks(page, "python"):
        exec(compile(text, "python.md", "exec"), names)
    assert np.array_equal(np.asarray(names["matches"]), [[True], [False]])
    [example] = blocks(README, "python")
    assert example == blocks(page, "python")[0]


def test_the_readme_filters_a_file_of_posts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("articles").mkdir()
    shutil.copy(SAMPLES / "seeds" / "ferry-fire.md", "articles")
    posts = map(json.loads, (SAMPLES / "posts.jsonl").read_text("utf-8").splitlines())
    with Path("posts.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("id", "text"), *((p["id"], p["text"]) for p in posts)])
    [line] = re.findall(r"^\$ newsift (filter .*)$", README, re.MULTILINE)
    result = CliRunner().invoke(cli, shlex.split(line))
    assert result.exit_code == 0, result.output
    with Path("matches.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 3
    assert {row["event"] for row in rows} == {"ferry"}


def test_every_command_is_documented_and_every_documented_command_exists() -> None:
    table = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert set(re.findall(r"^\| `newsift ([\w-]+)`", table, re.MULTILINE)) == set(COMMANDS) - {
        "worker"
    }
    for page in PAGES:
        lines = "".join(blocks(page.read_text("utf-8"), "console"))
        named = set(re.findall(r"^\$ newsift ([\w-]+)", lines, re.MULTILINE))
        assert named <= set(COMMANDS), page


def test_every_make_target_that_the_readme_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    for page in PAGES:
        lines = "".join(blocks(page.read_text("utf-8"), "console"))
        named = re.findall(r"^\$ make (?:[A-Z]+=\S+ )*([a-z-]+)", lines, re.MULTILINE)
        assert set(named) <= targets, page


def test_files_that_the_pages_name_exist() -> None:
    for page in PAGES:
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
