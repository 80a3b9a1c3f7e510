"""Lines of the product that touch private parts of a dependency, each with the reason.

A name with one underscore is a dependency's if neither the module that uses it nor one of ours that
the module imports gives it to anything, or if it is called by `super()` and no other module of ours
has it.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tests.patterns import modules

PACKAGES = ("bench", "encoder", "newsift", "train", "worker")
PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit"}  # by the manuals
REPAIRS = "worker.kafka.aiokafka_repairs"  # says by itself what is to be reported, and is no part
# Why, by module and name: what the public interface lacks. No issue is open upstream for most.
KNOWN: dict[tuple[str, str], str] = {
    ("encoder.support.jit", "_cache"): "numba takes no cache of one's own",
    ("encoder.support.jit", "_impl"): "numba takes no cache of one's own",
    ("encoder.support.jit", "_name"): "numba takes no cache of one's own",
    ("worker.kafka.reading", "_client"): "kafka-python tells no topic's id and no cluster's",
    ("worker.kafka.sending", "_sender"): "kafka-python cannot close without waiting for records",
    ("worker.kafka.topics", "_manager"): "describe_cluster fails on Kafka 2.8 to 3.6",
}


class PrivatePart(NamedTuple):
    module: str
    line: int
    name: str

    @property
    def reason(self) -> str:
        return KNOWN.get((self.module, self.name), "")


def private_parts() -> list[PrivatePart]:
    trees = {name: tree for name, _, tree in modules(*PACKAGES)}
    given = {name: set(given_names(tree)) for name, tree in trees.items()}
    found: set[PrivatePart] = set()
    for module, tree in trees.items():
        if module == REPAIRS:
            continue
        below = set[str]().union(*(given.get(name, set()) for name in imported(tree)), PUBLIC)
        for node in ast.walk(tree):
            for name, of_super in touched_names(node):
                own = below if of_super else below | given[module]
                if name.startswith("_") and not name.startswith("__") and name not in own:
                    found.add(PrivatePart(module, getattr(node, "lineno", 0), name))
    return sorted(found)


def unlisted() -> list[PrivatePart]:
    return [part for part in private_parts() if not part.reason]


def given_names(tree: ast.Module) -> Iterator[str]:
    """What a module names: functions, classes, arguments, variables, attributes of self."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif (
            isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
            and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
        ):  # fmt: skip
            yield node.attr


def imported(tree: ast.Module) -> Iterator[str]:
    """The modules that a module imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def touched_names(node: ast.AST) -> Iterator[tuple[str, bool]]:
    """Each attribute, import, and name that is looked up; and whether it is one of super()."""
    if isinstance(node, ast.Attribute):
        yield node.attr, ast.unparse(node.value) == "super()"
    elif isinstance(node, (ast.Import, ast.ImportFrom)):
        path = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
        paths = [path, *(alias.name for alias in node.names)]
        yield from ((part, False) for path in paths for part in path.split("."))
    elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("getattr", "setattr"):
        yield from (
            (str(each.value), False) for each in node.args if isinstance(each, ast.Constant)
        )
