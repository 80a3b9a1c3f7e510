"""A `newsift` to call from a test, and an encoder that takes no time to load."""

import io
import sys

import pytest

import encoder
from tests.worker.fake import Command, FakeEncoder, Outcome
from worker.cli import run


@pytest.fixture
def newsift(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call the command line inside this process, with bytes as its standard input."""

    def call(*args: object, stdin: bytes = b"") -> Outcome:
        raw = io.BufferedReader(io.BytesIO(stdin))
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, encoding="utf-8"))
        code = run([str(arg) for arg in args])
        return Outcome(code, *capsys.readouterr())

    return call


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeEncoder:
    """Put a fake in the place of every model."""
    made = FakeEncoder()
    monkeypatch.setattr(encoder, "load", lambda *_, **__: made, raising=False)
    return made
