import ast
import re
from pathlib import Path

import pytest

from tests.faults.story import Story

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
FAULT = re.compile(r"test_(\d\d)_")


def test_a_worker_that_commits_too_early_is_detected(story: Story) -> None:
    story.posts(150)
    worker = story.worker(at="decoded", nth=6, do="kill", early=True)
    assert worker.ended() == -9, worker.output
    with pytest.raises(AssertionError, match="missing: the match of"):
        story.crashed()


def test_each_fault_has_a_test_and_a_line_on_the_page() -> None:
    """The title of a fault is the first line of its test."""
    trees = (ast.parse(file.read_text("utf-8")) for file in Path(__file__).parent.glob("test_*.py"))
    tests = [
        (int(number[1]), (ast.get_docstring(node) or "").rstrip("."))
        for tree in trees for node in tree.body
        if isinstance(node, ast.FunctionDef) and (number := FAULT.match(node.name))
    ]  # fmt: skip
    assert {number for number, _ in tests} == set(range(1, 29))
    rows = re.findall(r"^\| (\d+) \| (.*?) \|", PAGE.read_text("utf-8"), re.MULTILINE)
    assert {(int(number), title) for number, title in rows} == set(tests)
