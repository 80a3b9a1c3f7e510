"""The house in figures: `python -m tests.house_report [--quick]` prints them. A report, not a gate.

It has lines, signatures, scaffolding, private parts of dependencies, and, unless --quick, the files
that one post, one seed and one label walk through (tests/walks.py).
"""

import ast
import sys
from collections.abc import Callable, Iterator

from tests.patterns import ROOT, modules
from tests.private_parts import KNOWN, PACKAGES, private_parts
from tests.walks import walks

MANY = 7  # parameters
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
Function = ast.FunctionDef | ast.AsyncFunctionDef


def signatures() -> Iterator[tuple[str, str, int]]:
    """Functions and constructors of the product with many parameters: module, name, count."""
    for module, _, tree in modules(*PACKAGES):
        for node in ast.walk(tree):
            if isinstance(node, FUNCTIONS):
                arguments = node.args
                names = [each.arg for each in (
                    *arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs,
                    *filter(None, (arguments.vararg, arguments.kwarg)),
                )]  # fmt: skip
                count = len(names) - (names[:1] in (["self"], ["cls"]))
                if count >= MANY:
                    yield module, node.name, count


def lines_of(node: Function | ast.ClassDef) -> int:
    first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
    return (node.end_lineno or node.lineno) - first + 1


def scaffolding(source: str, tree: ast.Module) -> int:
    """Lines of a file of tests that are helpers: all of one that holds no test."""
    blocks = [node for node in tree.body if isinstance(node, (*FUNCTIONS, ast.ClassDef))]
    tests = [node for node in blocks if node.name.lower().startswith("test")]
    if not tests:
        return source.count("\n")
    return sum(map(lines_of, blocks)) - sum(map(lines_of, tests))


def main(arguments: list[str]) -> None:
    write: Callable[[str], int] = sys.stdout.write
    write(f"{'package':12}{'files':>8}{'lines':>9}\n")
    totals: dict[str, int] = {}
    for package in (*PACKAGES, "tests"):
        sources = [source for _, source, _ in modules(package)]
        totals[package] = sum(source.count("\n") for source in sources)
        write(f"{package:12}{len(sources):8,}{totals[package]:9,}\n")
    scripts = [file for file in ROOT.glob("newsift/**/*.js") if file.parent.name != "vendor"]
    script_lines = sum(file.read_text("utf-8").count("\n") for file in scripts)
    write(f"{'JavaScript':12}{len(scripts):8,}{script_lines:9,}\n")
    product = sum(totals.values()) - totals["tests"] + script_lines
    helpers = sum(scaffolding(source, tree) for _, source, tree in modules("tests"))
    write(f"\nproduct, lines: {product:,}\ntests, lines: {totals['tests']:,}, ")
    write(f"of which scaffolding {helpers:,} ({helpers / totals['tests']:.0%})\n")

    many = sorted(signatures(), key=lambda row: (-row[2], row))
    write(f"\nfunctions and constructors with {MANY} or more parameters: {len(many)}\n")
    write("".join(f"  {count:3} {module}.{name}\n" for module, name, count in many))

    parts = private_parts()
    lines = {(part.module, part.line) for part in parts}
    write(f"\nlines that touch a private part of a dependency: {len(lines)}\n")
    write("".join(f"  {p.module}:{p.line} {p.name}: {p.reason or 'NOT LISTED'}\n" for p in parts))
    for module, name in sorted(KNOWN.keys() - {(part.module, part.name) for part in parts}):
        write(f"  {module} {name}: is listed, and not there any more\n")

    for walk, files in () if "--quick" in arguments else walks():
        write(f"\nfiles of which a function runs while {walk} passes: {len(files)}\n")
        write("".join(f"  {file}\n" for file in files))


if __name__ == "__main__":
    main(sys.argv[1:])
