"""The configuration as text: what is in force, and the file that newsift ships."""

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from worker.config import DEFAULTS, Config
from worker.config.kinds import scalar
from worker.config.load import Loaded
from worker.config.secret import HIDDEN, Secret

BARE = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:,-]*(?<!:)")
PLACES = Path(__file__).parents[1], Path(__file__).parents[2]  # in the wheel, in the checkout


def packaged() -> str:
    """The config.yaml that newsift ships: from the wheel, or from the checkout."""
    file = next(f for place in PLACES if (f := place / "config.yaml").exists())
    return file.read_text("utf-8")


def plain(config: Config) -> dict[str, dict[str, Any]]:
    """The values by section and key, for JSON; a secret is hidden."""
    return {
        section: {item.name: _plain(getattr(getattr(config, section), item.name))
                  for item in fields(getattr(config, section))}
        for section in DEFAULTS
    }  # fmt: skip


def rendered(found: Loaded) -> str:
    """The configuration in force as a config.yaml that would give it again, but for secrets."""
    lines = []
    for section, keys in DEFAULTS.items():
        lines.append(f"{section}:")
        for key in keys:
            value = getattr(getattr(found.config, section), key)
            origin = found.origins[f"{section}.{key}"]
            said = "" if value == keys[key] else _comment(value, origin)
            lines.append(f"  {key}: {_yaml(value)}{said}")
    return "\n".join(lines) + "\n"


def _comment(value: object, origin: str) -> str:
    hidden = f"{HIDDEN} " if isinstance(value, Secret) else ""
    where = "".join(char if char.isprintable() else "?" for char in origin)
    return f"  # {hidden}from {where}"


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path | Secret) else value


def _yaml(value: Any) -> str:
    if value is None or isinstance(value, Secret):
        return "null"
    if isinstance(value, str | Path):
        text = str(value)
        return text if BARE.fullmatch(text) and scalar(text) == text else json.dumps(text)
    return json.dumps(value)
