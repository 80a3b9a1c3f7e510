"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

SHARED = Path(os.environ.get("NEWSIFT_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real public text beside the checkout; without it the test is skipped."""
    if not (SHARED / "data").is_dir():
        pytest.skip("no ../shared/data beside this clone: real posts are not tested")
    return SHARED
