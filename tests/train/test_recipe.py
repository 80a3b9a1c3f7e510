"""Recipes: those that ship are read, and what is wrong with one is said in a line."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from encoder.errors import InputError
from train.model.encoders import ENCODERS
from train.recipe import KINDS, RECIPES, Recipe, parse, read_recipe

SHIPPED = sorted(file.stem for file in RECIPES.glob("*.yaml"))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_recipe_that_ships_can_be_read(name: str) -> None:
    found = read_recipe(name)
    assert found.encoder == (name if name in ENCODERS else "ast")
    assert found.digest == read_recipe(str(RECIPES / f"{name}.yaml")).digest


def test_the_paper_is_its_published_settings() -> None:
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


def test_the_encoders_that_are_compared_differ_in_nothing_else() -> None:
    def without(name: str) -> dict[str, Any]:
        return asdict(read_recipe(name)) | {"encoder": ""}

    star = read_recipe("ast")
    assert star.mix == (0.0,)
    for name in ENCODERS:
        assert without(name) == without("ast")


def test_an_ablation_leaves_out_one_thing() -> None:
    star, plain, triplet = map(read_recipe, ("ast", "ast-plain", "ast-triplet"))
    assert plain == replace(star, model=replace(star.model, residual=False))
    assert triplet.steps == star.steps
    assert triplet.model == star.model
    weights = {name for name, weight in asdict(triplet.losses).items() if weight}
    assert weights == {"triplet", "margin", "temperature"}
    assert [kind for kind in KINDS if triplet.has(kind)] == ["pairs"]


def test_a_recipe_lies_over_its_base(tmp_path: Path) -> None:
    (tmp_path / "low.yaml").write_text("seed: 3\nsteps: {count: 7, rate: 0.5}\n")
    (tmp_path / "high.yaml").write_text("base: low\nsteps: {rate: 0.25}\n")
    found = read_recipe(str(tmp_path / "high.yaml"))
    assert (found.seed, found.steps.count, found.steps.rate) == (3, 7, 0.25)
    (tmp_path / "higher.yaml").write_text("base: high\n")
    with pytest.raises(InputError, match="without a base of its own"):
        read_recipe(str(tmp_path / "higher.yaml"))


def test_the_digest_tells_recipes_apart() -> None:
    assert Recipe().digest == Recipe().digest
    assert Recipe(seed=1).digest != Recipe().digest


@pytest.mark.parametrize(
    ("found", "said"),
    [
        ({"stepps": {}}, "unknown key stepps; did you mean 'steps'"),
        ({"steps": {"rat": 1}}, r"unknown key steps\.rat; did you mean 'rate'"),
        ({"model": {"zzz": 1}}, r"unknown key model\.zzz; known are dim, heads"),
        ({"steps": {"count": "many"}}, "Expected `int`, got `str` - at `steps.count`"),
        ({"steps": {"rate": 0}}, r"`float` > 0\.0 - at `steps\.rate`"),
        ({"mix": [1.5]}, "mix"),
        ({"mix": []}, "mix is empty"),
        ({"model": {"heads": 0}}, "heads: 0 is not a whole number"),
        ({"encoder": "lstm"}, "'lstm' is not one of ast"),
        ({"steps": [1]}, "steps must hold keys and values"),
        ({"batches": {"pairs": 0}}, "no kind of step is above 0"),
        ({"batches": {"posts": 1}}, "need losses.vectors above 0"),
        ({"batches": {"cloze": 1}}, "needs losses.cloze above 0"),
        ({"tokens": {"vectors": "glove.txt"}}, "does not go with"),
        ({"tokens": {"kind": "words", "vectors": "x", "whole_words": 5}}, "to word pieces alone"),
        (["a"], "must hold keys and values"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(found: object, said: str) -> None:
    with pytest.raises(InputError, match=said) as caught:
        parse(found, "my.yaml")
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
