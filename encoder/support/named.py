"""Find models by name, or by directory."""

import re
from pathlib import Path

from encoder.errors import ModelError
from encoder.support.files import require_path

MODELS = Path(__file__).parents[1] / "models"
VOCABULARY = "vocabulary.txt"  # of a model's directory
NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")


def named_models() -> list[str]:
    """The names of the models that ship."""
    return sorted(path.name for path in MODELS.iterdir() if path.is_dir())


def model_directory(name_or_path: str | Path) -> Path:
    """Return the directory of a shipped model, or the path itself."""
    is_name = isinstance(name_or_path, str) and NAME.fullmatch(name_or_path)
    if is_name and (MODELS / name_or_path).is_dir():
        return MODELS / name_or_path
    path = require_path("model", name_or_path)
    if not path.is_dir():
        names = ", ".join(named_models())
        fault = f"no such directory, nor a model that ships ({names}); give its directory"
        raise ModelError(f"model {str(name_or_path)!r}: {fault}")
    return path
