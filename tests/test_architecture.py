"""docs/architecture.md shows the arrows that there are, and every room says what it is for."""

import ast
import re
from pathlib import Path

from tests.arrows import TOPS, arrows

ROOT = Path(__file__).parents[1]
ARROW = re.compile(r"^    ([\w.]+) --> ([\w.]+)$", re.MULTILINE)
FEWEST = 80  # characters that say what a room is for
LOOSE = {"encoder": 8, "worker": 4, "train": 8}


def test_the_picture_is_the_code() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    assert set(ARROW.findall(page)) == arrows()


def test_few_modules_stand_loose() -> None:
    loose = {top: len(list((ROOT / top).glob("*.py"))) for top in LOOSE}
    assert {top: count for top, count in loose.items() if count > LOOSE[top]} == {}


def test_every_room_says_what_it_is_for() -> None:
    rooms = [room for top in TOPS for room in sorted((ROOT / top).rglob("*.py"))]
    said = {
        str(file.parent.relative_to(ROOT)): ast.get_docstring(ast.parse(file.read_text("utf-8")))
        for file in rooms
        if file.name == "__init__.py"
    }
    assert {name for name, text in said.items() if len(text or "") < FEWEST} == set()
    assert {str(file.parent.relative_to(ROOT)) for file in rooms} <= said.keys()
