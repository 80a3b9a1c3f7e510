"""The files of the page, held in memory: the browser gets these and no others."""

import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}


@dataclass(frozen=True, slots=True)
class Page:
    """A file of the page, and the tag that tells whether a browser has it already."""

    content: bytes
    kind: str
    tag: str


def all_pages() -> dict[str, Page]:
    """Every file of the page by its path; the start page is /."""
    found = {f"/{name}": _page(name, file) for name, file in _walk(files("worker.desk") / "static")}
    found["/"] = found.pop("/index.html")
    return found


def _walk(folder: Traversable, above: str = "") -> list[tuple[str, Traversable]]:
    rows = []
    for each in folder.iterdir():
        name = f"{above}{each.name}"
        if each.is_dir():
            rows += _walk(each, f"{name}/")
        elif each.name.rpartition(".")[2] in KINDS:
            rows.append((name, each))
    return rows


def _page(name: str, file: Traversable) -> Page:
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    return Page(content, KINDS[name.rpartition(".")[2]], tag)
