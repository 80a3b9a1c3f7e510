"""What no linter checks: torch stays in its modules, and no file names this machine."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TORCH_IN_ENCODER = {
    "star.py",
    "entmax.py",
    "siamese.py",
    "torch_backend.py",
    "reference.py",
}


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def imported(node: ast.stmt) -> set[str]:
    """The top packages that a statement imports."""
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return {(node.module or "").split(".")[0]} if isinstance(node, ast.ImportFrom) else set()


def test_torch_stays_in_its_modules() -> None:
    """At the top of a module of the encoder only the reference and the GPU path import torch."""
    files = [file for file in (ROOT / "encoder").rglob("*.py") if file.name not in TORCH_IN_ENCODER]
    imports = {
        name(file): {
            word for node in ast.parse(file.read_text("utf-8")).body for word in imported(node)
        }
        for file in files
    }
    assert [file for file, words in imports.items() if "torch" in words] == []


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
