"""Messages of every form for tests: example files, with what each of them is to become."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "posts"


@dataclass(frozen=True)
class Example:
    """A message of real shape, and the keys and values of its outcome."""

    name: str
    message: dict[str, Any]
    expected: dict[str, Any]

    @property
    def form(self) -> str:
        return self.name.partition("_")[0]

    @property
    def value(self) -> bytes:
        return json.dumps(self.message).encode()


EXAMPLES = [
    Example(file.stem, **json.loads(file.read_text("utf-8")))
    for file in sorted(FOLDER.glob("*.json"))
]
