"""The configuration as text: the current one, and the file that newsift ships."""

import json
import re
from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from worker.config import KEYS, Config
from worker.config.load import NULL_TEXTS
from worker.config.rules import ALL
from worker.config.secret import HIDDEN_TEXT, Secret

PLAIN_SCALAR = re.compile(r"[A-Za-z0-9_./][A-Za-z0-9_./:,-]*(?<!:)")
CONFIG_FOLDERS = Path(__file__).parents[1], Path(__file__).parents[2]  # wheel, checkout


def read_template() -> str:
    """The config.yaml that newsift ships."""
    file = next(f for place in CONFIG_FOLDERS if (f := place / "config.yaml").exists())
    return file.read_text("utf-8")


def to_values(config: Config) -> dict[str, dict[str, Any]]:
    """Values for JSON; secrets are hidden."""
    return {
        section: {key: _plain(getattr(getattr(config, section), key)) for key in keys}
        for section, keys in KEYS.items()
    }


def render_config(config: Config, origins: Mapping[str, str] | None = None) -> str:
    """As a config.yaml, without secrets; `origins` say where values are from if not defaults."""
    lines = []
    for section, keys in KEYS.items():
        lines.append(f"{section}:")
        for name, key in keys.items():
            value, comment = getattr(getattr(config, section), name), ""
            if origins is not None and value != key.default:
                mark = f"{HIDDEN_TEXT} " if isinstance(value, Secret) else ""
                comment = f"  # {mark}from {repr(origins[f'{section}.{name}'])[1:-1]}"
            lines.append(f"  {name}: {_to_yaml(value)}{comment}")
    return "\n".join(lines) + "\n"


def _plain(value: Any) -> Any:
    if value == inf:
        return ALL
    return str(value) if isinstance(value, Path | Secret) else value


def _to_yaml(value: Any) -> str:
    if value is None or isinstance(value, Secret):
        return "null"
    value = _plain(value)
    if isinstance(value, str):
        is_plain = PLAIN_SCALAR.fullmatch(value) and value not in NULL_TEXTS
        return value if is_plain else json.dumps(value, ensure_ascii=False)
    return json.dumps(value)
