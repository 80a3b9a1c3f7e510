"""The lines of a stream, whichever way its bytes fall."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.sources.lines import LineParser
from worker.sources.source import LostError


@given(st.binary(max_size=80), st.lists(st.integers(0, 80), max_size=6))
def test_lines_are_the_same_however_the_bytes_fall(whole: bytes, cuts: list[int]) -> None:
    parser, found = LineParser(), list[bytes]()
    places = sorted({min(cut, len(whole)) for cut in cuts})
    for low, high in zip([0, *places], [*places, len(whole)], strict=True):
        found += parser.feed(whole[low:high])
    assert found == whole.split(b"\n")[:-1]


def test_a_line_without_end_is_given_up() -> None:
    parser = LineParser(largest=100)
    assert len(list(parser.feed(b"\n".join([b"x" * 90] * 5)))) == 4
    with pytest.raises(LostError, match="more than 100 bytes"):
        list(parser.feed(b"x" * 20))
