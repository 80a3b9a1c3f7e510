"""Find models by name: shipped or added to this machine."""

import re
from pathlib import Path

from encoder.errors import ModelError
from encoder.support.files import read_regular, require_path, state_folder

MODELS = Path(__file__).parents[1] / "models"
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
CARD = "card.md"
CARD_BYTES = 2**20


def added_folder() -> Path:
    """The folder of the models added by `newsift models add`."""
    return state_folder() / "models"


def named_models() -> dict[str, Path]:
    """The directory of every named model; a shipped one precedes an added one of that name."""
    models: dict[str, Path] = {}
    for folder in (MODELS, added_folder()):
        for path in sorted(folder.glob("*")):
            if NAME.fullmatch(path.name) and path.is_dir():
                models.setdefault(path.name, path)
    return models


def model_directory(name_or_path: str | Path) -> Path:
    """Return the directory of a shipped or added model, or the path itself."""
    if isinstance(name_or_path, str) and NAME.fullmatch(name_or_path):
        for folder in (MODELS, added_folder()):
            if (folder / name_or_path).is_dir():
                return folder / name_or_path
    path = require_path("model", name_or_path)
    if not path.is_dir():
        names = ", ".join(named_models()) or "none"
        fault = f"no such directory, nor a model that is here ({names})"
        raise ModelError(f"model {str(name_or_path)!r}: {fault}")
    return path


def card_of(folder: Path) -> bytes:
    """Read the card in a model directory, or the one beside it; empty if there is none."""
    for file in (folder / CARD, folder.with_name(f"{folder.name}.md")):
        try:
            return read_regular(file, CARD_BYTES)
        except OSError:
            continue
    return b""
