"""No pattern costs more than its text is long, whatever the text."""

import ast
import re

import pytest

from tests.patterns import Used, modules, patterns, slow

CODE = ("encoder", "worker")
FOUND = list(patterns(*CODE))


@pytest.mark.parametrize("used", FOUND, ids=lambda used: used.place)
def test_a_pattern_costs_what_the_text_is_long(used: Used) -> None:
    assert slow(used) is None


def test_all_patterns_are_found() -> None:
    """As many as the letters `re.` and the name of a function that takes one stand in the code."""
    source = "".join(ast.unparse(tree) for _, tree in modules(*CODE))
    assert len(FOUND) == len(re.findall(r"\bre\.[a-z]+\(", source)) - source.count("re.escape(")
    assert len(FOUND) > 30


@pytest.mark.parametrize(
    ("pattern", "once"),
    [
        (r"h?tt+ps?(?::|…)[^\s<>]*+", False),
        (r"(a+)+b", True),
        (r"\s+$", False),
        (r"<[^>]*>", False),
        (r"a(?=.*b)", False),
        (rb"(?:[^x]|xy)*y.*z", True),
        (r"[0-9]+\.?[0-9]*!", True),
    ],
)
def test_a_slow_pattern_is_found_out(pattern: str, once: bool) -> None:
    assert slow(Used(re.compile(pattern), "here", once)) is not None
