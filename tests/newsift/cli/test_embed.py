import gzip
import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import encoder
from encoder import Embeddings, Encoder
from tests.encoder.small_transformer import two_readers
from tests.worker.fake_command import Command

ROWS = (
    b'{"id": "a", "text": "one ferry"}\n\n{"id": 7, "title": "T", "text": "two"}\n{"text": "x"}\n'
)


def vectors(out: str) -> np.ndarray[Any, Any]:
    return np.array([json.loads(line)["dense"] for line in out.splitlines()], np.float32)


def test_lines_from_standard_input_become_json_lines(newsift: Command, enc: Encoder) -> None:
    done = newsift("embed", stdin="\ufeffstorm\r\n\nthe\u2028flood".encode())
    texts = ["storm", "", "the\u2028flood"]
    assert (done.code, done.err) == (0, "")
    expected = enc.posts(texts)
    assert np.array_equal(vectors(done.out), expected.dense)
    rows = [json.loads(line) for line in done.out.splitlines()]
    ((slot, weight),) = zip(*rows[0]["lexical"].values(), strict=True)
    assert (slot, weight) == (expected.lexical.slots[0], 1)
    assert rows[0]["id"] == f"sha256:{hashlib.sha256(b'storm').hexdigest()[:16]}"
    assert "id" not in rows[1]
    assert newsift("embed").out == ""


def test_articles_go_with_their_titles(newsift: Command, enc: Encoder) -> None:
    done = newsift("embed", "--articles", stdin=ROWS)
    expected = enc.articles(["one ferry", ("T", "two"), "x"]).dense
    assert np.array_equal(vectors(done.out), expected)


def test_gzip_becomes_safetensors(newsift: Command, enc: Encoder, tmp_path: Path) -> None:
    source, out = tmp_path / "posts", tmp_path / "posts.safetensors"
    source.write_bytes(gzip.compress(ROWS))
    done = newsift("embed", source, "--out", out)
    assert (done.code, done.out, done.err) == (0, "", "")
    expected = enc.posts(["one ferry", "two", "x"]).dense
    assert np.array_equal(Embeddings.load(out).dense, expected)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["posts", "posts.safetensors"]


def test_batches_are_bounded_and_in_order(
    newsift: Command, enc: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("newsift.cli.embed.MAX_BATCH_TEXTS", 3)
    monkeypatch.setattr("newsift.cli.embed.MAX_BATCH_BYTES", 20)
    texts, posts = ["a", "b", "c", "d" * 25, "e", "f"], Encoder.posts
    expected, batches = posts(enc, texts).dense, list[list[str]]()

    def noted(own: Encoder, batch: list[str]) -> Embeddings:
        batches.append(batch)
        return posts(own, batch)

    monkeypatch.setattr(Encoder, "posts", noted)
    out = tmp_path / "x.safetensors"
    newsift("embed", "--out", out, stdin="\n".join(texts).encode())
    assert batches == [["a", "b", "c"], ["d" * 25], ["e", "f"]]
    assert np.array_equal(Embeddings.load(out).dense, expected)


def test_posts_may_be_skimmed(
    newsift: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    enc, texts = two_readers(), ["storm flood", "river"]
    monkeypatch.setattr(encoder, "load", lambda *_, **__: enc)
    out = tmp_path / "skimmed.safetensors"
    assert newsift("embed", "--skim", "--out", out, stdin="\n".join(texts).encode()).code == 0
    result = Embeddings.load(out)
    assert result.skimmed
    assert np.array_equal(result.dense, enc.skim(texts).dense)
    assert not np.array_equal(result.dense, enc.posts(texts).dense)
    assert newsift("embed", "--skim", "--articles", stdin=ROWS).code == 2


BAD = [
    (b'{"text": "ok"}\n{"text": 3}', "line 2: text: expected a string or null, found an integer"),
    (b'{"text": "ok"}\n\n{"text": "a", "title": 1}', "line 3 has a 'title' that is not text"),
    (b"fine\n\xff\xfe", "line 2: is not UTF-8 at byte 1"),
    (b"fine\n" + b"long " * 300, "line 2: is longer than 16 MiB"),
]


@pytest.mark.parametrize(("stdin", "reason"), BAD)
def test_a_bad_row_stops_it_or_is_skipped(
    newsift: Command, enc: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    stdin: bytes, reason: str,
) -> None:  # fmt: skip
    monkeypatch.setattr("newsift.files.read.MAX_LINE_BYTES", 1000 if b"long" in stdin else 2**20)
    out = tmp_path / "old.safetensors"
    out.write_bytes(b"precious")
    done = newsift("embed", "--out", out, stdin=stdin)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(f"newsift: stdin, {reason}")
    assert done.err.count("\n") == 1
    assert out.read_bytes() == b"precious"
    skipped = newsift("embed", "--skip-bad", stdin=stdin + b"\n")
    assert (skipped.code, len(skipped.out.splitlines())) == (1, 1)
    assert f"skipped: stdin, {reason}" in skipped.err
    assert "1 of 2 rows could not be read" in skipped.err.splitlines()[-1]
