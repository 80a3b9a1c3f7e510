"""The records of an unpacked batch, walked from end to end before anybody believes a length."""

from collections.abc import Callable
from typing import Any

GOOD, CROWDED, FOREIGN = -1, -2, -3
LENGTH, TIME, OFFSET, KEY, VALUE, HEADERS, NAME, CONTENT = range(8)  # a record's numbers, in order
HIGH_BIT, LOW_BITS = 0x80, 0x7F
LONG, LONGEST = 35, 70  # bits of a number, and of a time

Walk = Callable[[Any, int, int, int], int]


def walk(body: Any, count: int, last_delta: int, most: int) -> int:  # noqa: C901 - see below
    """GOOD, CROWDED beyond `most` records and headers, FOREIGN names, or the byte that is wrong.

    One loop over all numbers of all records, so that numba compiles it as it stands.
    """
    size, verdict = len(body), GOOD
    at = end = left = items = records = 0
    delta, field = -1, LENGTH
    while records < count:
        began, value, shift, byte, wrong = at, 0, 0, HIGH_BIT, False
        while byte >= HIGH_BIT:
            if at >= size or shift >= (LONGEST if field == TIME else LONG):
                return began
            byte = int(body[at])
            value |= (byte & LOW_BITS) << shift
            at, shift = at + 1, shift + 7
        value = (value >> 1) ^ -(value & 1)
        if field == LENGTH:  # and a byte of attributes, which some clients read as a number
            gap, end, at = began - end, at + value, at + 1
            wrong = gap != 0 or not at <= end <= size or body[at - 1] >= HIGH_BIT
        elif field == OFFSET:
            wrong, delta = not delta < value <= last_delta, value
        elif field == HEADERS:
            wrong, left, items = value < 0, value, items + 1 + value
        elif field >= KEY:
            value = value if value > 0 or field == NAME else 0
            wrong = not 0 <= value <= end - at
            if field == NAME and not wrong:
                for place in range(at, at + value):
                    verdict = verdict if body[place] < HIGH_BIT else FOREIGN
            at, left = at + value, left - 1 if field == CONTENT else left
        if wrong or at > end or items > most:
            return CROWDED if items > most else began
        if field < HEADERS:
            field += 1
        elif left > 0:
            field = CONTENT if field == NAME else NAME
        else:
            field, records = LENGTH, records + 1
    return verdict if at == size else at
