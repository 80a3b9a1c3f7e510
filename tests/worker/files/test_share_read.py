"""How much of the inputs was read: from nothing to all of it, where that can be known."""

import gzip
import io
import json
import sys
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from worker.config import DEFAULT_LIMITS
from worker.files.formats.columns import FileOptions
from worker.files.posts import checked, share_read
from worker.files.read import DASH

ROWS = [{"id": str(n), "text": f"post {n} of many, {n * 7919 % 1000}"} for n in range(20_000)]


def test_it_grows_to_one(tmp_path: Path) -> None:
    lines = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    (tmp_path / "a.jsonl").write_bytes(lines)
    (tmp_path / "b.json.gz").write_bytes(
        gzip.compress(b"[" + lines[:-1].replace(b"\n", b",") + b"]")
    )
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "c.parquet")
    inputs = checked([tmp_path], FileOptions(), DEFAULT_LIMITS)
    share = share_read(inputs)
    shares = [share(None) for each in inputs for _ in each]
    assert len(shares) > 20
    assert shares == sorted(shares)
    assert shares[0] < 0.6
    assert shares[-1] == 1


def test_of_a_pipe_nobody_knows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "text": "a"}\n', "utf-8")
    raw = io.BufferedReader(io.BytesIO(b'{"id": "1", "text": "a"}\n'))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(raw, encoding="utf-8"))
    inputs = checked([tmp_path / "a.jsonl", DASH], FileOptions(), DEFAULT_LIMITS)
    share = share_read(inputs)
    assert {share(None) for each in inputs for _ in each} == {0.0}
