"""What no linter checks: `python -m tests.house_checks` prints each breach, and fails on one.

- No regular expression costs more than its text is long, whatever the text, or works on later
  versions of Python alone.
- In the encoder only the reference and the GPU path import torch at the top of a module.
- No file names a package registry or a path of this machine.
- No file imports itself by way of others.
- The picture in docs/architecture.md has the arrows that the imports have.
- No line touches a private part of a dependency that tests/private_parts.py does not list.
"""

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp

from tests.patterns import Used, modules, patterns, slow
from tests.private_parts import unlisted

ROOT = Path(__file__).parents[1]
PACKAGES = ("encoder", "newsift", "worker")
TORCH_IN_ENCODER = {
    "star.py", "star_torch.py", "star_transformer.py", "entmax.py", "siamese.py",
    "torch_backend.py", "reference.py",
}  # fmt: skip
TOPS = ("bench", "encoder", "newsift", "train", "worker")
ROOTS = {"encoder", "newsift", "worker"}
WHOLE = {"bench", "train"}  # one room each, as the picture has them
ARROW = re.compile(r"^    ([\w.]+) --> ([\w.]+)$", re.MULTILINE)
POSSESSIVE_GROUP = re.compile(r"(?<!\\)\)[*+?]\+")  # up to Python 3.11.4 it matches too much
SLOW_PATTERNS = [  # the check has to detect these
    (r"h?tt+ps?(?::|…)[^\s<>]*+", False),
    (r"(a+)+b", True),
    (r"\s+$", False),
    (r"<[^>]*>", False),
    (r"a(?=.*b)", False),
    (rb"(?:[^x]|xy)*y.*z", True),
    (r"[0-9]+\.?[0-9]*!", True),
]


def check_patterns() -> Iterator[str]:
    """Time every pattern of the code on texts made to be slow for it."""
    used = list(patterns(*PACKAGES))
    source = "".join(ast.unparse(tree) for *_, tree in modules(*PACKAGES))
    calls = len(re.findall(r"\bre\.[a-z]+\(", source)) - source.count("re.escape(")
    if len(used) != calls or calls < 30:
        yield f"{len(used)} patterns are checked, but the code has {calls}"
    for each in used:
        if POSSESSIVE_GROUP.search(str(each.pattern.pattern)):
            yield f"{each.place}: {each.pattern.pattern!r} repeats a group possessively: (?>(…)*)"
        if (text := slow(each)) is not None:
            yield f"{each.place}: {each.pattern.pattern!r} is slow on {text}"
    for pattern, once in SLOW_PATTERNS:
        if slow(Used(re.compile(pattern), "here", once)) is None:
            yield f"the check does not detect that {pattern!r} is slow"


def check_torch() -> Iterator[str]:
    """Look for torch among the imports at the top of the encoder's other modules."""
    for file in (ROOT / "encoder").rglob("*.py"):
        if file.name not in TORCH_IN_ENCODER:
            for node in ast.parse(file.read_text("utf-8")).body:
                if "torch" in _packages(node):
                    yield f"{file.relative_to(ROOT)}:{node.lineno}: imports torch"


def _packages(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name.split(".")[0] for alias in node.names}
    return {(node.module or "").split(".")[0]} if isinstance(node, ast.ImportFrom) else set()


def check_names() -> Iterator[str]:
    """Search all files of the repository for hosts of registries and paths of this machine."""
    files = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout.splitlines()  # fmt: skip
    parts = [("py", "pi.org"), ("python", "hosted"), ("download.py", "torch"), ("repo1.", "maven"),
             ("repo.", "maven"), ("registry.", "npmjs"), ("static.", "crates"),
             ("proxy.", "golang"), ("deb.", "debian"), ("/wo", "rk/"), ("/ro", "ot/")]  # fmt: skip
    words = [(a + b).encode() for a, b in parts] + [f"{ROOT}/".encode()]
    for file in map(ROOT.joinpath, files):
        if file.is_file() and any(word in file.read_bytes() for word in words):
            yield f"{file.relative_to(ROOT)}: names a registry or a path of this machine"


@cache
def import_graph() -> grimp.ImportGraph:
    return grimp.build_graph(*TOPS, exclude_type_checking_imports=True, cache_dir=None)


def check_circles() -> Iterator[str]:
    """Look for a way back from each import."""
    graph = import_graph()
    for module in sorted(graph.modules):
        for other in sorted(graph.find_modules_directly_imported_by(module)):
            if chain := graph.find_shortest_chain(other, module):
                yield f"{module} imports itself: {' -> '.join([module, *chain])}"


def check_picture() -> Iterator[str]:
    """Compare the picture of the packages with their imports.

    An arrow that follows from others is left out, as the picture would be a web.
    """
    drawn = set(ARROW.findall((ROOT / "docs" / "architecture.md").read_text("utf-8")))
    imports = drawn_imports()
    for upper, lower in sorted(drawn ^ imports):
        where = "the code" if (upper, lower) in drawn else "docs/architecture.md"
        yield f"{upper} --> {lower} is missing in {where}"


def room_of(module: str) -> str:
    """The room of a module, by its first two names."""
    parts = module.split(".")
    return parts[0] if parts[0] in WHOLE else ".".join(parts[:2])


def drawn_imports() -> set[tuple[str, str]]:
    """From each room to those that it imports, without those that follow from others."""
    graph = import_graph()
    below: dict[str, set[str]] = defaultdict(set)
    for module in graph.modules - ROOTS:
        for other in graph.find_modules_directly_imported_by(module) - ROOTS:
            if room_of(module) != room_of(other):
                below[room_of(module)].add(room_of(other))
    return {
        (upper, lower)
        for upper, rooms in below.items()
        for lower in rooms
        if lower not in _reached(below, rooms - {lower})
    }


def _reached(below: dict[str, set[str]], rooms: set[str]) -> set[str]:
    result: set[str] = set()
    while rooms:
        result |= rooms
        rooms = {lower for room in rooms for lower in below.get(room, ())} - result
    return result


def check_private_parts() -> Iterator[str]:
    for part in unlisted():
        yield f"{part.module}:{part.line}: {part.name} is private to a dependency, and not listed"


def main() -> int:
    """Run all checks; 1 if one of them has something to report."""
    checks = (
        check_patterns, check_torch, check_names, check_circles, check_picture,
        check_private_parts,
    )  # fmt: skip
    breaches = [breach for check in checks for breach in check()]
    sys.stderr.writelines(f"{breach}\n" for breach in breaches)
    return bool(breaches)


if __name__ == "__main__":
    sys.exit(main())
