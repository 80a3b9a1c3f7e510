"""The nesting of JSON, measured before it is decoded."""

import numpy as np
from numpy.typing import NDArray

Outline = NDArray[np.uint8]

LIST_START, OBJECT_START, CLOSING, COMMA = 1, 2, 3, 4
DEPTH_STEPS = np.array([0, 1, 1, -1, 0], np.int8)
SIGN_OF_BYTE = np.zeros(256, np.uint8)
SIGN_OF_BYTE[list(b"[{]},")] = LIST_START, OBJECT_START, CLOSING, CLOSING, COMMA
QUOTE = ord('"')
MAX_DEPTH = 200  # A decoder's own limit moves with the stack it is called on; this one does not.


def json_outline(value: bytes) -> Outline:
    """The brackets, braces and commas outside of strings, in order."""
    content = value.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in value else value
    letters = np.frombuffer(content, np.uint8)
    signs = SIGN_OF_BYTE[letters]
    in_string = np.bitwise_xor.accumulate(letters == QUOTE)
    return signs[(signs > 0) & ~in_string]


def nesting_levels(signs: Outline) -> NDArray[np.int32]:
    """Open objects and lists after each sign."""
    return np.cumsum(DEPTH_STEPS[signs], dtype=np.int32)


def max_nesting(signs: Outline) -> int:
    return int(nesting_levels(signs).max(initial=0))


def longest_list_length(signs: Outline) -> int:
    """The length of the longest list, for a nesting of at most 255."""
    level = (nesting_levels(signs) + (signs == CLOSING)).clip(0, 255).astype(np.uint8)
    # Level by level: what is between two opening brackets belongs to the first.
    signs = signs[np.argsort(level, kind="stable")]
    opens = np.flatnonzero((signs == LIST_START) | (signs == OBJECT_START))
    commas = np.append(0, np.cumsum(signs == COMMA, dtype=np.int32))
    lengths = np.diff(np.append(commas[opens], commas[-1]))
    return int(lengths[signs[opens] == LIST_START].max(initial=-1)) + 1


def may_be_deep(value: bytes) -> bool:
    """A cheap test: without it the outline is not worth its time."""
    return len(value) > MAX_DEPTH and value.count(b"[") + value.count(b"{") > MAX_DEPTH
