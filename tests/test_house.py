"""The rules of the house: sizes, torch in its rooms, docstrings, nothing of this machine."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("newsift", "encoder", "worker", "train", "bench")
TORCH_IN_ENCODER = {
    "star.py",
    "entmax.py",
    "siamese.py",
    "torch_backend.py",
    "reference.py",
}
SOURCES = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
TESTS = sorted((ROOT / "tests").rglob("*.py"))

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def imported(node: ast.AST) -> Iterator[str]:
    """The top packages that a tree imports, wherever it does."""
    for found in ast.walk(node):
        if isinstance(found, ast.Import):
            yield from (alias.name.split(".")[0] for alias in found.names)
        elif isinstance(found, ast.ImportFrom) and found.module:
            yield found.module.split(".")[0]


def public(node: ast.Module | Definition) -> Iterator[Definition]:
    """Every public function, class and method."""
    for child in node.body:
        if isinstance(child, Definition) and not child.name.startswith("_"):
            yield child
            if isinstance(child, ast.ClassDef):
                yield from public(child)


@pytest.mark.parametrize("file", SOURCES + TESTS, ids=name)
def test_sizes(file: Path) -> None:
    limit = 200 if file.parent.name in ("kernel", "simd") and file in SOURCES else 300
    assert len(file.read_text("utf-8").splitlines()) <= limit
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno <= 40, node.name


@pytest.mark.parametrize("file", SOURCES, ids=name)
def test_torch_stays_in_its_rooms(file: Path) -> None:
    """At the top of a module only the reference and the GPU path import torch."""
    if file.parts[len(ROOT.parts)] != "encoder" or file.name in TORCH_IN_ENCODER:
        return
    for node in tree(file).body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            assert "torch" not in set(imported(node))


@pytest.mark.parametrize("file", SOURCES, ids=name)
def test_every_public_name_says_what_it_is(file: Path) -> None:
    module = tree(file)
    assert ast.get_docstring(module), "the module has no docstring"
    silent = [node.name for node in public(module) if not ast.get_docstring(node)]
    assert silent == []


def test_no_file_names_a_registry_or_this_machine() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("not a git checkout: no list of the project's files")
    parts = [("py", "pi.org"), ("python", "hosted"), ("download.py", "torch"), ("repo1.", "maven"),
             ("repo.", "maven"), ("registry.", "npmjs"), ("static.", "crates"),
             ("proxy.", "golang"), ("deb.", "debian"), ("/wo", "rk/"), ("/ro", "ot/")]  # fmt: skip
    words = [(a + b).encode() for a, b in parts] + [f"{ROOT}/".encode()]
    files = [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]
    leaks = [name(file) for file in files if any(w in file.read_bytes() for w in words)]
    assert leaks == []
