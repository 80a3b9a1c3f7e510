"""Fixtures shared by all tests."""

import io
import os
import sys
from pathlib import Path

import pytest
from hypothesis import settings

from tests.worker.fake import Command, Outcome
from worker.cli import run

# The same examples in every run, so that a change is judged and not the dice; NEWSIFT_EXPLORE=1
# draws new ones.
settings.register_profile("steady", derandomize=True)
if not os.environ.get("NEWSIFT_EXPLORE"):
    settings.load_profile("steady")

SHARED = Path(os.environ.get("NEWSIFT_SHARED", Path(__file__).parents[2] / "shared"))


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real public text beside the checkout; without it the test is skipped."""
    if not (SHARED / "data").is_dir():
        pytest.skip("no ../shared/data beside this clone: real posts are not tested")
    return SHARED


@pytest.fixture
def newsift(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call the command line inside this process, with bytes as its standard input."""

    def call(*args: object, stdin: bytes = b"") -> Outcome:
        raw = io.BufferedReader(io.BytesIO(stdin))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, encoding="utf-8"))
        code = run([str(arg) for arg in args])
        return Outcome(code, *capsys.readouterr())

    return call
