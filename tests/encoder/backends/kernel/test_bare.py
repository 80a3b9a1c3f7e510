"""Bare pointers: numba lets an array go after its last use, so somebody else has to hold it."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[4]
FILES = sorted((ROOT / "encoder").rglob("*.py"))


def pointed_at(function: ast.FunctionDef) -> Iterator[str]:
    """The names of which a function takes bare pointers."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "bare":
            given = node.args[0]
            each = given.elts if isinstance(given, ast.Tuple) else [given]
            yield from (one.id for one in each if isinstance(one, ast.Name))


def held(function: ast.FunctionDef) -> set[str]:
    """What lives to the end of a function: what its caller holds, and what it returns."""
    given = {argument.arg for argument in function.args.args}
    for node in ast.walk(function):
        unpacked = isinstance(node, ast.Assign) and getattr(node.value, "id", "") in given
        if unpacked or isinstance(node, ast.Return):
            given |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    return given


def test_pointers_are_taken_only_of_what_lives_to_the_end() -> None:
    found = [
        (file.name, function.name, name)
        for file in FILES
        for function in ast.walk(ast.parse(file.read_text("utf-8")))
        if isinstance(function, ast.FunctionDef) and function.name != "bare"
        for name in pointed_at(function)
        if name not in held(function)
    ]
    assert found == []
    assert any(list(pointed_at(node)) for file in FILES for node in ast.walk(
        ast.parse(file.read_text("utf-8"))) if isinstance(node, ast.FunctionDef))  # fmt: skip
