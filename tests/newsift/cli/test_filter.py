import csv
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest

from encoder import Encoder
from tests.faults.expected_matches import digest
from tests.newsift.cli.test_matches import rows
from tests.newsift.files.formats import forms
from tests.worker.command_topics import POSTS as POSTS_TOPIC
from tests.worker.command_topics import Kafka
from tests.worker.fake_command import Command
from tests.worker.sample_articles import ARTICLES, FERRY, POSTS, lines, write_seeds


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeds")
    write_seeds(folder)
    return folder


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEWSIFT_CONFIG", raising=False)


def test_matches_are_those_of_a_slow_loop(newsift: Command, seeds: Path, enc: Encoder) -> None:
    """Every score, threshold and id from the encoder and the contract alone."""
    vectors = enc.articles(list(ARTICLES.values()))
    cuts = enc.thresholds(vectors, 0.001)
    expected = {}
    for post in POSTS:
        scores = enc.posts([post["text"]]).similarity(vectors)[0]
        for name, score, cut in zip(ARTICLES, scores, cuts, strict=True):
            version = digest(list(ARTICLES[name]))[:12]
            key = ["plain", post["id"], post["text"], name, version, enc.digest]
            if score >= cut:
                expected[digest(key)[:32]] = (post["id"], name, score, cut)
    done = newsift("filter", "--force", "--seeds", seeds, stdin=lines(*POSTS))
    assert done.code == 0, done.err
    result = {
        m["match_id"]: (r["post"]["id"], m["seed_id"], m["score"], m["threshold"])
        for r in rows(done.out)
        for m in r["matches"]
    }
    assert result.keys() == expected.keys()
    assert len(result) > 20
    assert len({post for post, *_ in result.values()}) < len(POSTS)
    for id, (owner, seed, *numbers) in expected.items():
        assert result[id][:2] == (owner, seed)
        assert np.allclose(result[id][2:], numbers, atol=1e-5)


def test_the_time_of_a_post_is_its_message_s(newsift: Command, tmp_path: Path) -> None:
    seed = {"text": FERRY, "expires_at": "2020-01-01T00:00:00Z", "event": "e", "threshold": 0.2}
    file = tmp_path / "s1.json"
    file.write_text(json.dumps(seed), "utf-8")
    before, after = "2019-12-31T23:59:59.5Z", "Wed Jan 01 00:00:01 +0000 2020"
    stdin = lines(
        {"id": "a", "text": FERRY, "created_at": before},
        {"id": "b", "text": FERRY, "created_at": after},
        {"id": "c", "text": FERRY},
    )
    result = rows(newsift("filter", "--force", "--seeds", file, stdin=stdin).out)
    assert [(r["post"]["id"], r["source"]["timestamp"]) for r in result] == [
        ("a", 1577836799500), ("c", 0),
    ]  # fmt: skip
    assert {(m["seed_id"], m["event"], m["threshold"]) for r in result for m in r["matches"]} == {
        ("s1", "e", 0.2)
    }


def test_event_joins_articles_of_all_paths(newsift: Command, seeds: Path, tmp_path: Path) -> None:
    (tmp_path / "one.md").write_text(f"{FERRY} " * 9)
    args = ("--seeds", seeds, "--seeds", tmp_path / "one.md", "--event", "ferry")
    result = rows(newsift("filter", *args, "--force", stdin=lines(*POSTS)).out)
    assert {match["event"] for record in result for match in record["matches"]} == {"ferry"}
    assert {match["seed_id"] for record in result for match in record["matches"]} > {"one", "dam"}


def test_a_lower_bar_by_rate_or_threshold_lets_more_in(newsift: Command, seeds: Path) -> None:
    def count(*args: object) -> int:
        return len(
            rows(newsift("filter", "--force", "--seeds", seeds, *args, stdin=lines(*POSTS)).out)
        )

    assert count("--threshold", 1) < count() < count("--rate", 0.02) < count("--threshold", 1e-6)


def test_bad_lines_are_reported_and_written(newsift: Command, seeds: Path, tmp_path: Path) -> None:
    bad = [b'{"id": "1", "text": ', b'{"id": "x"}', b'{"id": "\xff", "text": "x"}']
    good = json.dumps({"id": "1", "text": FERRY}).encode()
    source, stored = tmp_path / "posts", tmp_path / "bad"
    source.write_bytes(b"\n".join([good, bad[0], b"", bad[1], good, bad[2]]))
    done = newsift("filter", "--force", source, "--seeds", seeds, "--rejected", stored)
    assert (done.code, len(rows(done.out))) == (1, 2)
    for place in ("line 2: bad_json", "line 4: no_text", "line 6: invalid_utf8"):
        assert f"rejected: posts {place}" in done.err
    assert "5 posts read, 2 matched (1 different post), 3 rejected" in done.err
    assert stored.read_bytes().split(b"\n") == [*bad, b""]


SAID = "Fire on the ferry Astrid Vane off Port Maren, we are in the lifeboats"
ROWS = f'7;"{SAID}\r\nnow";é;cy\r\n8;Best tacos;b;di\r\n'
TABLE = f"Tweet Id;Full Text;mine;User\r\n{ROWS}".encode("cp1252")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
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
        ("x", forms.TWEET["id"], "ben"), ("plain", "7", "cy"),
    ]  # fmt: skip
    assert (rows[1]["Tweet Id"], rows[1]["mine"], rows[1]["line"]) == ("7", "é", "2")
    assert rows[1]["text"] == f"{SAID}\nnow"
    assert "tweets.csv: text from 'Full Text', id from 'Tweet Id', author from 'User'" in done.err
    assert "tweets.csv: its text is read as Windows-1252" in done.err
    assert "4 posts read, 2 matched" in done.err


@pytest.mark.parametrize(("bad", "code"), [(5, 0), (6, 1)])
def test_too_many_bad_rows_fail(newsift: Command, folder: Path, bad: int, code: int) -> None:
    rows = [f'{n},"{SAID}"' for n in range(100 - bad)] + ["cut"] * bad
    (folder / "t.csv").write_text("\n".join(["id,text", *rows]), "utf-8")
    done = newsift("filter", "--force", "t.csv", "--seeds", "seed.md", "--threshold", "0.5",
                   "--out", "m.jsonl", "--rejected", "bad")  # fmt: skip
    assert done.code == code
    assert (folder / "m.jsonl").read_bytes().count(b"\n") == 100 - bad
    assert (folder / "bad").read_bytes() == b"cut\n" * bad
    output = f"newsift: {bad} of 100 rows could not be read, more than 5%"
    assert (output in done.err) == (code == 1)


def test_replay_sends_what_check_accepts(newsift: Command, folder: Path, kafka: Kafka) -> None:
    (folder / "cut.json").write_bytes(
        json.dumps([{"id": n, "text": "a"} for n in range(99)])[:-1].encode()
    )
    (folder / "some.jsonl").write_bytes(lines(*({"id": n, "text": "a"} for n in range(9))) + b"{\n")
    for file, code in (("in", 0), ("cut.json", 2), ("some.jsonl", 1)):
        checked = newsift("replay", "--check", file)
        assert (checked.code, kafka.records(POSTS_TOPIC)) == (code, []), checked.err
    assert newsift("replay", "cut.json").code == 2
    assert kafka.records(POSTS_TOPIC) == []
    done = newsift("replay", "some.jsonl")
    assert (done.code, len(kafka.records(POSTS_TOPIC))) == (1, 9)
    assert "not sent: some.jsonl line 10: bad_json" in done.err
