"""The limit on numpy's threads: there inside the block, gone after it."""

import numpy as np
import pytest

from encoder.support.blas import libraries, one_thread


def threads() -> set[int]:
    return {found["num_threads"] for found in libraries().info() if found["user_api"] == "blas"}


def test_products_inside_the_block_run_on_one_thread() -> None:
    with libraries().limit(limits=2, user_api="blas"):
        before = threads()
        with one_thread():
            assert threads() == {1}
            np.testing.assert_array_equal(np.eye(3) @ np.arange(3), np.arange(3))
        assert threads() == before


def test_blocks_that_overlap_leave_the_threads_as_they_were() -> None:
    with libraries().limit(limits=2, user_api="blas"):
        before = threads()
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert threads() == {1}
        second.__exit__(None, None, None)
        assert threads() == before


def test_a_block_that_fails_undoes_its_limit() -> None:
    with libraries().limit(limits=2, user_api="blas"):
        before = threads()
        with pytest.raises(ZeroDivisionError), one_thread():
            _ = 1 / 0
        assert threads() == before
