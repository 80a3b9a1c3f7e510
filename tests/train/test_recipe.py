"""Recipes: those that ship are read, and what is wrong with one is said in a line."""

from dataclasses import asdict
from pathlib import Path

import pytest

from encoder.errors import InputError
from train.model.encoders import ENCODERS
from train.recipe import RECIPES, parse, read_recipe

SHIPPED = sorted(file.stem for file in RECIPES.glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_that_ships_can_be_read(name: str) -> None:
    result = read_recipe(name)
    assert result.encoder == (name if name in ENCODERS else "ast")
    assert result.digest == read_recipe(str(RECIPES / f"{name}.yaml")).digest


def test_the_paper_recipe_has_the_published_settings() -> None:
    paper = read_recipe("paper")
    model, steps, losses = paper.model, paper.steps, asdict(paper.losses)
    assert (model.dim, model.layers, model.heads, model.head_dim) == (300, 1, 10, 30)
    assert (model.window, model.residual, model.article_tokens) == (2, False, 1000)
    assert {name for name, weight in losses.items() if weight} == {
        "triplet", "margin", "temperature",
    }  # fmt: skip
    assert losses["margin"] == 0.075
    assert (steps.rate, steps.table_rate, steps.patience, steps.decay) == (1e-3, 1e-3, 5, False)
    assert paper.batches.pair_size == 128
    assert paper.mix == (0.0,)
    assert (paper.tokens.kind, paper.tokens.vectors) == ("words", "glove.840B.300d.txt")
    assert not paper.needs_teacher


def test_a_recipe_overrides_its_base(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("seed: 3\nsteps: {count: 7, rate: 0.5}\n")
    (tmp_path / "high.yaml").write_text("base: low\nsteps: {rate: 0.25}\n")
    result = read_recipe(str(tmp_path / "high.yaml"))
    assert (result.seed, result.steps.count, result.steps.rate) == (3, 7, 0.25)
    (tmp_path / "higher.yaml").write_text("base: high\n")
    with pytest.raises(InputError, match="without a base of its own"):
        read_recipe(str(tmp_path / "higher.yaml"))


@pytest.mark.parametrize(
    ("result", "message"),
    [
        ({"stepps": {}}, "unknown key stepps; did you mean 'steps'"),
        ({"steps": {"rat": 1}}, r"unknown key steps\.rat; did you mean 'rate'"),
        ({"steps": {"count": "many"}}, "Expected `int`, got `str` - at `steps.count`"),
        ({"mix": []}, "mix is empty"),
        ({"model": {"heads": 0}}, "heads: 0 is not a whole number"),
        ({"encoder": "lstm"}, "'lstm' is not one of ast"),
        ({"steps": [1]}, "steps must hold keys and values"),
        ({"batches": {"cloze": 1}}, "needs losses.cloze above 0"),
        ({"tokens": {"vectors": "glove.txt"}}, "does not go with"),
        (["a"], "must hold keys and values"),
    ],
)
def test_a_bad_recipe_is_refused_in_one_line(result: object, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        parse(result, "my.yaml")
    assert str(caught.value).startswith("my.yaml: ")
    assert "\n" not in str(caught.value)


def test_an_unknown_recipe_names_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'paper'"):
        read_recipe("papr")
    with pytest.raises(InputError, match="those that ship: ast, "):
        read_recipe(str(tmp_path / "zzzzzz"))


@pytest.mark.parametrize("text", ["a: [", "- x", "\xff"])
def test_a_file_that_is_no_recipe_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match=r"bad\.yaml"):
        read_recipe(str(file))
