"""The limit on numpy's threads: there inside the block, gone after it."""

import numpy as np

from encoder.blas import libraries, one_thread


def threads() -> set[int]:
    return {found["num_threads"] for found in libraries().info() if found["user_api"] == "blas"}


def test_products_inside_the_block_run_on_one_thread() -> None:
    with libraries().limit(limits=2, user_api="blas"):
        before = threads()
        with one_thread():
            assert threads() == {1}
            np.testing.assert_array_equal(np.eye(3) @ np.arange(3), np.arange(3))
        assert threads() == before
