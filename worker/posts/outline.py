"""The outline of JSON: how deep it is nested and how long its lists are, told without decoding."""

import numpy as np
from numpy.typing import NDArray

Signs = NDArray[np.uint8]

LIST, OBJECT, END, COMMA = 1, 2, 3, 4
STEPS = np.array([0, 1, 1, -1, 0], np.int8)
SIGNS = np.zeros(256, np.uint8)
SIGNS[list(b"[{]},")] = LIST, OBJECT, END, END, COMMA
QUOTE = ord('"')


def outline(value: bytes) -> Signs:
    """The brackets, braces and commas of a value that stand outside its strings, in order."""
    bare = value.replace(rb"\\", b"").replace(rb"\"", b"") if b"\\" in value else value
    letters = np.frombuffer(bare, np.uint8)
    signs = SIGNS[letters]
    inside = np.bitwise_xor.accumulate(letters == QUOTE)
    return signs[(signs > 0) & ~inside]


def levels(signs: Signs) -> NDArray[np.int32]:
    """How many objects and lists are open after each sign."""
    return np.cumsum(STEPS[signs], dtype=np.int32)


def depth(signs: Signs) -> int:
    """How many objects and lists stand inside each other at most."""
    return int(levels(signs).max(initial=0))


def longest_list(signs: Signs) -> int:
    """The items of the longest list, where no more than 255 stand inside each other."""
    around = (levels(signs) + (signs == END)).clip(0, 255).astype(np.uint8)
    # Level by level, what stands between two that open belongs to the first of them.
    signs = signs[np.argsort(around, kind="stable")]
    opens = np.flatnonzero((signs == LIST) | (signs == OBJECT))
    commas = np.append(0, np.cumsum(signs == COMMA, dtype=np.int32))
    between = np.diff(np.append(commas[opens], commas[-1]))
    return int(between[signs[opens] == LIST].max(initial=-1)) + 1
