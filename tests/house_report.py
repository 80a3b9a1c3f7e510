"""The house in figures: `python -m tests.house_report` prints them. A report, not a gate."""

import ast
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator

import grimp

from tests.patterns import ROOT, modules

PACKAGES = ("encoder", "worker", "newsift", "train", "bench")
# The functions that make sense of a record's bytes; who calls one of them parses.
PARSERS = {
    "control records": {"parse_control_record", "parse_seed_record"},
    "labels": {"read_label"},
}
CONTRACT = {"matched", "rejected", "expired"}
DIALECT = re.compile("found|told|said|asked|known|kept|wanted|heard|stands|standing", re.IGNORECASE)
IRREGULAR = {
    "begun", "bound", "bought", "broken", "built", "chosen", "done", "drawn", "found", "given",
    "gone", "held", "hidden", "kept", "known", "laid", "lost", "made", "meant", "met", "paid",
    "said", "seen", "sent", "shown", "shut", "spent", "stood", "taken", "taught", "told", "thrown",
    "won", "written",
}  # fmt: skip
NO_PARTICIPLES = {
    "bed", "bleed", "breed", "embed", "exceed", "feed", "hundred", "indeed", "need", "proceed",
    "red", "seed", "shed", "speed", "succeed",
}  # fmt: skip
DEFINITIONS = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def is_participle(name: str) -> bool:
    """Whether a name is one past participle and nothing else."""
    word = name.strip("_").lower()
    regular = re.fullmatch(r"[a-z]{2,}ed", word) is not None and word not in NO_PARTICIPLES
    return (regular or word in IRREGULAR) and word not in CONTRACT


def definitions(module: str, tree: ast.Module) -> Iterator[str]:
    """The names that a module gives: its own, classes, functions, arguments, variables."""
    yield module.rpartition(".")[2]
    for node in ast.walk(tree):
        if isinstance(node, DEFINITIONS):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def calls(tree: ast.Module) -> set[str]:
    """The names of all functions that a module calls."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            names.add(ast.unparse(node.func).rpartition(".")[2])
    return names


def main() -> None:
    """Print the report."""
    write: Callable[[str], int] = sys.stdout.write
    trees = {package: list(modules(package)) for package in (*PACKAGES, "tests")}
    product = [row for package in PACKAGES for row in trees[package]]

    write(f"{'package':10}{'files':>8}{'lines':>8}{'statements':>12}\n")
    for package, rows in trees.items():
        lines = sum(source.count("\n") for _, source, _ in rows)
        statements = sum(isinstance(n, ast.stmt) for *_, tree in rows for n in ast.walk(tree))
        write(f"{package:10}{len(rows):8,}{lines:8,}{statements:12,}\n")

    scripts = [file for file in ROOT.glob("newsift/**/*.js") if file.parent.name != "vendor"]
    lines = sum(file.read_text("utf-8").count("\n") for file in scripts)
    write(f"{'JavaScript':10}{len(scripts):8,}{lines:8,}\n")

    places: dict[str, list[str]] = defaultdict(list)
    for module, _, tree in product:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
    shared = {name: where for name, where in places.items() if len(where) > 1}
    write(f"\nclass names with more than one meaning: {len(shared)}\n")
    for name, where in sorted(shared.items(), key=lambda item: (-len(item[1]), item[0])):
        write(f"  {name}: {', '.join(where)}\n")

    names = [name for module, _, tree in product for name in definitions(module, tree)]
    dialect = Counter(name for name in names if DIALECT.search(name))
    write(f"\nnames that hold {DIALECT.pattern}: {dialect.total()}\n  ")
    write(", ".join(f"{name} {count}" for name, count in dialect.most_common()) + "\n")

    words = Counter(filter(is_participle, names))
    write(f"\nparticiples as definitions: {len(words)} names, {words.total()} times\n")
    write("".join(f"  {count:5} {word}\n" for word, count in words.most_common(40)))

    graph = grimp.build_graph(*PACKAGES, cache_dir=None)
    importers = {m: graph.find_modules_that_directly_import(m) for m in graph.modules}
    packages = {name.rpartition(".")[0] for name in graph.modules}
    alone = sorted(m for m, by in importers.items() if len(by) == 1 and m not in packages)
    small = {m for m, source, _ in product if source.count("\n") <= 80}
    write(f"\nmodules with one importer: {len(alone)}, of at most 80 lines: ")
    write(f"{len(small.intersection(alone))}\n")
    write("".join(f"  {module} <- {min(importers[module])}\n" for module in alone))

    for what, parsers in PARSERS.items():
        own = [module for module, _, tree in product if calls(tree) & parsers]
        write(f"\nmodules that parse {what}: {len(own)}\n")
        write("".join(f"  {module}\n" for module in own))


if __name__ == "__main__":
    main()
