import csv
import json
import re
import shlex
import shutil
from dataclasses import fields, is_dataclass
from pathlib import Path

import click
import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from newsift.cli import COMMANDS, cli
from newsift.collect.collector import COLLECTOR_METRICS
from train.recipe import RECIPES, Recipe
from worker.config import KEYS
from worker.config.load import load_config
from worker.metrics.registry import METRICS, OTHER_EVENTS, MetricSpec

ROOT = Path(__file__).parents[1]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/**/*.md"))]
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


def newsift_lines(page: Path) -> list[list[str]]:
    """The words after `newsift` of each command line on a page."""
    lines = "".join(blocks(page.read_text("utf-8"), "console"))
    return [
        shlex.split(line, comments=True)
        for line in re.findall(r"^\$ newsift (.*?)(?: [|>] .*)?$", lines, re.MULTILINE)
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_each_command_is_valid(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("DIR", "exports", "star"):
        Path(folder).mkdir()
    for words in newsift_lines(page):
        command: click.Command = cli
        context = click.Context(cli, info_name="newsift")
        while isinstance(command, click.Group):
            found = command.get_command(context, words[0])
            assert found is not None, words
            command, words = found, words[1:]
        command.make_context(page.stem, words)


def test_the_first_file_of_the_site_is_filtered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("worker").symlink_to(ROOT / "worker")
    [words] = [each for each in newsift_lines(ROOT / "docs" / "start.md") if each[0] == "filter"]
    assert CliRunner().invoke(cli, words).exit_code == 0
    assert Path("matches.csv").stat().st_size > 1000


def test_every_command_is_documented_and_every_documented_command_exists() -> None:
    table = (ROOT / "docs" / "commands.md").read_text("utf-8")
    assert set(re.findall(r"^\| `newsift ([\w-]+)`", table, re.MULTILINE)) == set(COMMANDS) - {
        "worker"
    }
    for page in PAGES:
        lines = "".join(blocks(page.read_text("utf-8"), "console"))
        named = set(re.findall(r"^\$ newsift ([\w-]+)", lines, re.MULTILINE))
        assert named <= set(COMMANDS), page


def test_files_that_the_pages_name_exist() -> None:
    for page in PAGES:
        for path in re.findall(r"\b(?:worker|encoder|train|bench|tests)/[\w/.-]+\.\w+",
                               page.read_text("utf-8")):  # fmt: skip
            assert (ROOT / path).exists(), (page.name, path)


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of the table under a header."""
    text = (ROOT / "docs" / page).read_text("utf-8")
    table = text.split(f"| {header} |\n", 1)[1].split("\n\n", 1)[0]
    return [re.split(r" \| ", line.strip("| ")) for line in table.splitlines()[1:]]


def labels(row: MetricSpec) -> str:
    """The labels of a metric, and the values where there are only so many."""
    values = "" if row.label_values in ((), (OTHER_EVENTS,)) else f": {', '.join(row.label_values)}"
    return ", ".join(row.labels) + values or "-"


REQUIRED = {
    "config.md": ("key | default | what it may be", [
        [f"`{section}.{name}`", f"`{yaml.safe_dump(key.default).splitlines()[0]}`", key.requirement]
        for section, keys in KEYS.items() for name, key in keys.items()
    ]),
    "metrics.md": ("metric | type | labels | meaning", [
        [f"`{row.name}`", row.kind.__name__.removeprefix("Batch").lower(), labels(row), row.help]
        for row in METRICS
    ]),
    "platforms.md": ("metric | type | labels | meaning", [
        [f"`{row.name}`", row.kind.__name__.lower(), ", ".join(row.labels), row.help]
        for row in COLLECTOR_METRICS
    ]),
}  # fmt: skip


@pytest.mark.parametrize("page", REQUIRED)
def test_every_key_and_metric_stands_on_its_page(page: str) -> None:
    header, required = REQUIRED[page]
    assert rows(page, header) == required


def test_every_alert_limit_and_version_has_its_paragraph() -> None:
    def marks(pattern: str, page: str) -> list[str]:
        return re.findall(pattern, (ROOT / page).read_text("utf-8"), re.MULTILINE)

    alerts = marks(r"- alert: (\w+)", "deploy/prometheus/rules.yml")
    assert marks(r"^## (\w+)$", "docs/alerts.md") == alerts
    assert marks(r"^\| `limits\.(\w+)`", "SECURITY.md") == [*KEYS["limits"]]
    [version] = marks(r'^version = "(.*)"', "pyproject.toml")
    assert marks(r"^## ([\d.]+)", "CHANGELOG.md")[0] == version


def test_the_example_of_a_login_is_right(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "config.md").read_text("utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "word").write_text("x")
    file = tmp_path / "config.yaml"
    file.write_text(example.replace("/run/secrets/kafka", "word"))
    kafka = load_config(file, {}).kafka
    assert (kafka.username, kafka.ca_file) == ("newsift", tmp_path / "ca.pem")


def test_every_recipe_and_every_section_of_one_stands_in_the_docs() -> None:
    described = rows("recipes.md", "recipe | what it is")
    names = [name for row in described for name in row[0].split(", ")]
    assert sorted(names) == sorted(f"`{file.stem}`" for file in RECIPES.glob("*.yaml"))
    keys = {cells[0].strip("`"): cells[1] for cells in rows("recipes.md", "section | keys")}
    recipe = Recipe()
    for field in fields(recipe):
        section = getattr(recipe, field.name)
        if is_dataclass(section):
            own = {one.name for one in fields(section) if not one.name.endswith("_size")}
            named = set(re.findall(r"`(\w+)`", keys[field.name]))
            assert named & own if field.name == "model" else named >= own, field.name
