"""Model directories file by file, and what vouches for them."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from encoder.model_directory import digest_of, write_model
from tests.encoder.small import small_model


def sound(path: Path) -> dict[str, bytes]:
    """The files of a sound model, written there first."""
    write_model(path, small_model())
    return {file.name: file.read_bytes() for file in path.iterdir()}


def sign(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a manifest, and let it vouch for what lies in the folder and for itself."""
    file = folder / "manifest.json"
    manifest = json.loads(file.read_text())
    for facts in (manifest["files"], manifest["checks"]):
        for name in facts:
            held = (folder / name).read_bytes()
            facts[name] = {"bytes": len(held), "sha256": hashlib.sha256(held).hexdigest()}
    change(manifest)
    manifest["digest"] = digest_of(manifest)
    file.write_text(json.dumps(manifest))
