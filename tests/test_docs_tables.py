"""The tables of docs/: as in the code, row by row."""

import re
from dataclasses import fields, is_dataclass
from pathlib import Path

import yaml

from newsift.collect.collector import COLLECTED, RECONNECTS
from train.recipe import RECIPES, Recipe
from worker.config import KEYS, load_config
from worker.metrics.registry import METRICS, OTHER, Exported

DOCS = Path(__file__).parents[1] / "docs"


def rows(page: str, header: str) -> list[list[str]]:
    """The cells of the table under a header."""
    text = (DOCS / page).read_text("utf-8")
    table = text.split(f"| {header} |\n", 1)[1].split("\n\n", 1)[0]
    return [re.split(r" \| ", line.strip("| ")) for line in table.splitlines()[1:]]


def labels(row: Exported) -> str:
    """The labels of a metric, and the values where there are only so many."""
    values = "" if row.closed in ((), (OTHER,)) else f": {', '.join(row.closed)}"
    return ", ".join(row.labels) + values or "-"


def test_every_key_stands_with_its_default_and_its_rule() -> None:
    requirement = [
        [f"`{section}.{name}`", f"`{yaml.safe_dump(key.default).splitlines()[0]}`", key.requirement]
        for section, keys in KEYS.items() for name, key in keys.items()
    ]  # fmt: skip
    assert rows("config.md", "key | default | what it may be") == requirement


def test_every_metric_stands_with_its_type_and_its_labels() -> None:
    requirement = [
        [f"`{row.name}`", row.kind.__name__.removeprefix("Batch").lower(), labels(row), row.says]
        for row in METRICS
    ]
    assert rows("metrics.md", "metric | type | labels | meaning") == requirement


def test_every_metric_of_a_collector_stands_in_its_docs() -> None:
    requirement = [
        [f"`{row.name}`", row.kind.__name__.lower(), ", ".join(row.labels), row.says]
        for row in (*COLLECTED, RECONNECTS)
    ]
    assert rows("collect.md", "metric | type | labels | meaning") == requirement


def test_the_example_of_a_login_is_right(tmp_path: Path) -> None:
    text = (DOCS / "config.md").read_text("utf-8")
    example = text.split("```yaml\n")[1].split("```")[0]
    (tmp_path / "word").write_text("x")
    file = tmp_path / "config.yaml"
    file.write_text(example.replace("/run/secrets/kafka", "word"))
    kafka = load_config(file, {}).kafka
    assert (kafka.username, kafka.ca_file) == ("newsift", tmp_path / "ca.pem")


def test_every_recipe_and_every_section_of_one_stands_in_the_docs() -> None:
    told = [
        name for row in rows("training.md", "recipe | what it is") for name in row[0].split(", ")
    ]
    assert sorted(told) == sorted(f"`{file.stem}`" for file in RECIPES.glob("*.yaml"))
    described = {cells[0].strip("`"): cells[1] for cells in rows("training.md", "section | keys")}
    recipe = Recipe()
    for field in fields(recipe):
        section = getattr(recipe, field.name)
        if is_dataclass(section):
            own = {one.name for one in fields(section) if not one.name.endswith("_size")}
            named = set(re.findall(r"`(\w+)`", described[field.name]))
            assert named & own if field.name == "model" else named >= own, field.name
