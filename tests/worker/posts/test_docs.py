"""docs/posts.md: its forms, reasons and limit are the code's, and its example is a post."""

import re
from pathlib import Path

from worker.match.records import VALUELESS
from worker.posts.checks import DEPTH
from worker.posts.read import FORMS, Post, Reason, read_post

PAGE = (Path(__file__).parents[3] / "docs" / "posts.md").read_text("utf-8")
FIRST_CELLS = re.findall(r"^\| `([\w.]+)` \|", PAGE, re.MULTILINE)


def test_every_form_and_every_reason_is_explained() -> None:
    assert [*FORMS[1:], *Reason] == FIRST_CELLS


def test_the_limits_are_right() -> None:
    assert f"more than {DEPTH} deep" in PAGE
    kept_without_value = re.findall(r"^\| `([\w.]+)` \| .*it is not kept \|$", PAGE, re.MULTILINE)
    assert kept_without_value == list(VALUELESS)


def test_the_example_is_a_post() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    assert isinstance(read_post(example.encode()), Post)
