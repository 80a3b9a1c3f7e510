"""The models that have a name on this machine, as rows."""

from pathlib import Path
from typing import Any

from encoder.errors import ModelError
from encoder.manifest import read_manifest
from encoder.support.named import MODELS, card_of, named_models

Row = dict[str, Any]


def listed() -> list[Row]:
    """What is told of each model: what ships first, then what was added."""
    return [row_of(name, path) for name, path in named_models().items()]


def row_of(name: str, path: Path) -> Row:
    """What is told of one model; of one that is damaged, what is wrong with it."""
    row: Row = {"name": name, "added": path.parent != MODELS}
    try:
        manifest = read_manifest(path)
    except ModelError as error:
        return row | {"digest": None, "bytes": None, "about": str(error), "path": str(path)}
    size = sum(facts.bytes for facts in (manifest.files | manifest.checks).values())
    about = _first(card_of(path).decode(errors="replace"))
    return row | {"digest": manifest.digest, "bytes": size, "about": about, "path": str(path)}


def _first(card: str) -> str | None:
    """The first line of a card that is no heading."""
    lines = (line.strip() for line in card.splitlines())
    return next((line for line in lines if line and not line.startswith("#")), None)
