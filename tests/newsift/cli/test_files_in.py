"""Files in: what filter and replay do with what researchers have on disk, and what they refuse."""

import csv
import gzip
import io
import json
from pathlib import Path

import pytest

import encoder
from encoder import Encoder
from tests.newsift.files.formats import forms
from tests.worker.articles import lines
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, Kafka

OTHER = "The best tacos of my life"
SAID = "Fire on the ferry Astrid Vane off Port Maren, we are in the lifeboats"
TABLE = f'Tweet Id;Full Text;mine\r\n7;"{SAID}\r\nnow";é\r\n8;{OTHER};b\r\n'.encode("cp1252")


@pytest.fixture(scope="module")
def model() -> Encoder:
    return encoder.load("default", device="cpu")


@pytest.fixture
def folder(model: Encoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder to stand in, with a seed, a table and a page of tweets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEWSIFT_CONFIG", raising=False)
    monkeypatch.setattr(encoder, "load", lambda *_, **__: model)
    (tmp_path / "seed.md").write_text(f"# Ferry\n{SAID}", "utf-8")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "tweets.csv").write_bytes(TABLE)
    original = forms.ORIGINAL | {"text": SAID}
    page = forms.PAGE | {"includes": {"users": [forms.BEN], "tweets": [original]}}
    (tmp_path / "in" / "twarc.jsonl.gz").write_bytes(gzip.compress(lines(page)))
    return tmp_path


def test_a_folder_of_what_there_is_becomes_one_table(newsift: Command, folder: Path) -> None:
    done = newsift(
        "filter", "--force", "in", "--seeds", "seed.md", "--threshold", "0.5", "--out", "m.csv"
    )
    assert done.code == 0, done.err
    rows = list(csv.DictReader(io.StringIO((folder / "m.csv").read_text("utf-8"), newline="")))
    assert [(row["platform"], row["post_id"], row["author"]) for row in rows] == [
        ("x", forms.TWEET["id"], "ben"), ("plain", "7", ""),
    ]  # fmt: skip
    assert (rows[1]["Tweet Id"], rows[1]["mine"], rows[1]["line"]) == ("7", "é", "2")
    assert rows[1]["text"] == f"{SAID}\nnow"
    assert "tweets.csv: text from 'Full Text', id from 'Tweet Id'" in done.err
    assert "tweets.csv: its letters are read as Windows-1252" in done.err
    assert "4 posts read, 2 matched" in done.err


BAD = [
    ("tweets.csv", b"id,words,day\n1,a,b\n", "tweets.csv, line 1: has no column of texts"),
    ("words", b"some words\n", "words, line 1: is not understood ('some words')"),
    ("cut.json", b'[{"id": "1", "text": "a"}, {"id"', "cut.json: the JSON is cut off after item 1"),
    ("wide.csv", b"," * 10**6, "wide.csv, line 1: has 1,000,001 columns"),
    ("nul.csv", b"\0\0\n", "nul.csv, line 1: holds NUL bytes"),
    ("none.parquet", b"PAR1", "none.parquet: the Parquet is damaged"),
]


@pytest.mark.parametrize(("name", "content", "message"), BAD, ids=[name for name, _, _ in BAD])
def test_what_is_refused_is_refused_before_anything_is_written(
    newsift: Command, folder: Path, name: str, content: bytes, message: str
) -> None:
    (folder / name).write_bytes(content)
    (folder / "out.jsonl").write_bytes(b"old")
    args = ("filter", "--force", "in", name, "--seeds", "seed.md", "--threshold", "0.5")
    for more in ((), ("--out", "out.jsonl", "--rejected", "bad")):
        done = newsift(*args, *more)
        assert (done.code, done.out) == (2, "")
        assert message in done.err.splitlines()[-1]
        assert done.err.count("\n") <= 3
    assert (folder / "out.jsonl").read_bytes() == b"old"
    assert {file.name for file in folder.iterdir()} == {"in", "seed.md", name, "out.jsonl"}


def test_lines_have_no_columns(newsift: Command, folder: Path) -> None:
    (folder / "a.txt").write_text("a\n")
    for option in ("--text-column", "--id-column", "--time-column"):
        done = newsift("replay", "--check", "a.txt", "--format", "lines", option, "body")
        assert (done.code, done.err.count("\n")) == (2, 1)
        assert "--format lines has no columns; leave their names out" in done.err


@pytest.mark.parametrize(("bad", "code"), [(0, 0), (5, 0), (6, 1), (90, 1)])
def test_more_than_a_few_bad_rows_fail_at_the_end(
    newsift: Command, folder: Path, bad: int, code: int
) -> None:
    rows = [f'{n},"{SAID}"' for n in range(100 - bad)] + ["cut"] * bad
    (folder / "t.csv").write_text("\n".join(["id,text", *rows]), "utf-8")
    done = newsift("filter", "--force", "t.csv", "--seeds", "seed.md", "--threshold", "0.5",
                   "--out", "m.jsonl", "--rejected", "bad")  # fmt: skip
    assert done.code == code
    assert (folder / "m.jsonl").read_bytes().count(b"\n") == 100 - bad
    assert (folder / "bad").read_bytes() == b"cut\n" * bad
    output = f"newsift: {bad} of 100 rows could not be read, more than 5%"
    assert (output in done.err) == (code == 1)


def test_replay_sends_posts_as_platforms_or_we_write_them(
    newsift: Command, folder: Path, kafka: Kafka
) -> None:
    (folder / "result.json").write_text(json.dumps(forms.CHAT), "utf-8")
    (folder / "status.json").write_text(json.dumps([forms.STATUS], indent=1), "utf-8")
    done = newsift("replay", "in/tweets.csv", "result.json", "status.json")
    assert done.code == 0, done.err
    result = {record.key: record.value for record in kafka.records(POSTS)}
    assert json.loads(result[b"7"]) == {"id": "7", "text": f"{SAID}\nnow"}
    assert json.loads(result[b"5/2"])["text"] == "Smoke on the ferry!"
    assert result[str(forms.STATUS["id"]).encode()].startswith(b'{\n  "id"')


def test_replay_sends_nothing_that_check_refuses(
    newsift: Command, folder: Path, kafka: Kafka
) -> None:
    (folder / "cut.json").write_bytes(
        json.dumps([{"id": n, "text": "a"} for n in range(99)])[:-1].encode()
    )
    (folder / "some.jsonl").write_bytes(lines(*({"id": n, "text": "a"} for n in range(9))) + b"{\n")
    for file, code in (("in", 0), ("cut.json", 2), ("some.jsonl", 1)):
        checked = newsift("replay", "--check", file)
        assert (checked.code, kafka.records(POSTS)) == (code, []), checked.err
    assert newsift("replay", "cut.json").code == 2
    assert kafka.records(POSTS) == []
    done = newsift("replay", "some.jsonl")
    assert (done.code, len(kafka.records(POSTS))) == (1, 9)
    assert "not sent: some.jsonl line 10: bad_json" in done.err


def test_check_needs_no_broker(newsift: Command, folder: Path) -> None:
    done = newsift("replay", "--check", "in", "--kafka", "127.0.0.1:1")
    assert (done.code, done.out) == (0, "")
    assert "4 posts can be sent" in done.err


def test_standard_input_is_told_by_what_comes(newsift: Command, folder: Path) -> None:
    args = ("filter", "--force", "-", "--seeds", "seed.md", "--threshold", "0.5")
    for stdin in (TABLE, f"{SAID}\n{OTHER}\n".encode(), json.dumps([{"text": SAID}]).encode(),
                  gzip.compress(lines({"text": SAID}))):  # fmt: skip
        done = newsift(*args, stdin=stdin)
        assert (done.code, done.out.count("\n")) == (0, 1), done.err
    assert newsift(*args, "--format", "jsonl", stdin=SAID.encode()).code == 2
