"""`newsift filter`: the worker's own matches from files, and what it tells besides."""

import hashlib
import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import encoder
from encoder import Encoder
from tests.worker.articles import ARTICLES, FERRY, OTHER, POSTS, lines, write_seeds
from tests.worker.fake import Command
from worker.match.pipeline import Pipeline

SCHEMA = json.loads((Path(__file__).parents[3] / "deploy/schemas/match.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the articles, of which one is JSON."""
    folder = tmp_path_factory.mktemp("seeds")
    write_seeds(folder)
    return folder


@pytest.fixture(scope="module")
def model() -> Encoder:
    return encoder.load("default", device="cpu")


@pytest.fixture(autouse=True)
def alone(model: Encoder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No configuration of this machine, and one load of the model for all tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NEWSIFT_CONFIG", raising=False)
    monkeypatch.setattr(encoder, "load", lambda *_, **__: model)


def records(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def hexed(value: object) -> str:
    """A digest as the contract defines it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def test_matches_are_those_of_a_slow_loop(newsift: Command, seeds: Path, model: Encoder) -> None:
    """Every score, threshold and id from the encoder and the contract alone."""
    vectors = model.articles(list(ARTICLES.values()))
    cuts = model.thresholds(vectors, 0.001)
    expected = {}
    for post in POSTS:
        scores = model.posts([post["text"]]).similarity(vectors)[0]
        for name, score, cut in zip(ARTICLES, scores, cuts, strict=True):
            version = hexed(list(ARTICLES[name]))[:12]
            key = ["plain", post["id"], post["text"], name, version, model.digest]
            if score >= cut:
                expected[hexed(key)[:32]] = (post["id"], name, score, cut)
    done = newsift("filter", "--force", "--seeds", seeds, stdin=lines(*POSTS))
    assert done.code == 0, done.err
    result = {
        m["match_id"]: (r["post"]["id"], m["seed_id"], m["score"], m["threshold"])
        for r in records(done.out)
        for m in r["matches"]
    }
    assert result.keys() == expected.keys()
    assert len(result) > 20
    assert len({post for post, *_ in result.values()}) < len(POSTS)
    for id, (owner, seed, *numbers) in expected.items():
        assert result[id][:2] == (owner, seed)
        assert np.allclose(result[id][2:], numbers, atol=1e-5)


def test_records_have_the_shape_of_the_worker_s(
    newsift: Command, seeds: Path, tmp_path: Path
) -> None:
    file = tmp_path / "posts.jsonl"
    file.write_bytes(lines(*POSTS))
    done = newsift("filter", "--force", file, "--seeds", seeds)
    assert done.out
    for record in records(done.out):
        jsonschema.validate(record, SCHEMA)
        assert record["source"]["topic"] == "posts.jsonl"
        assert POSTS[record["source"]["offset"]]["id"] == record["post"]["id"]


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
    result = records(newsift("filter", "--force", "--seeds", file, stdin=stdin).out)
    assert [(r["post"]["id"], r["source"]["timestamp"]) for r in result] == [
        ("a", 1577836799500), ("c", 0),
    ]  # fmt: skip
    assert {(m["seed_id"], m["event"], m["threshold"]) for r in result for m in r["matches"]} == {
        ("s1", "e", 0.2)
    }


def test_articles_of_several_paths_are_one_event_and_short_ones_are_refused(
    newsift: Command, seeds: Path, tmp_path: Path
) -> None:
    (tmp_path / "one.md").write_text(f"{FERRY} " * 9)
    args = ("filter", "--seeds", seeds, "--seeds", tmp_path / "one.md", "--event", "ferry")
    done = newsift(*args, stdin=lines(*POSTS))
    assert (done.code, done.out) == (2, "")
    assert "clinics.json: has 22 words, and an article has 40" in done.err
    assert done.err.endswith("; write more, or give --force\n")
    result = records(newsift(*args, "--force", stdin=lines(*POSTS)).out)
    assert {match["event"] for record in result for match in record["matches"]} == {"ferry"}
    assert {match["seed_id"] for record in result for match in record["matches"]} > {"one", "dam"}


def test_the_words_can_be_left_out(newsift: Command, seeds: Path) -> None:
    stdin = lines({"id": "1", "text": FERRY})
    (plain,) = records(newsift("filter", "--force", "--seeds", seeds, "--no-why", stdin=stdin).out)
    (full,) = records(newsift("filter", "--force", "--seeds", seeds, stdin=stdin).out)
    assert [match.pop("why") for match in plain["matches"]] == [[]]
    assert len(full["matches"][0].pop("why")) == 8
    assert plain["matches"] == full["matches"]


def test_a_lower_bar_by_rate_or_threshold_lets_more_in(newsift: Command, seeds: Path) -> None:
    def count(*args: object) -> int:
        return len(
            records(newsift("filter", "--force", "--seeds", seeds, *args, stdin=lines(*POSTS)).out)
        )

    assert count("--threshold", 1) < count() < count("--rate", 0.02) < count("--threshold", 1e-6)


def test_bad_lines_are_told_and_kept(newsift: Command, seeds: Path, tmp_path: Path) -> None:
    bad = [b'{"id": "1", "text": ', b'{"id": "x"}', b'{"id": "\xff", "text": "x"}']
    good = json.dumps({"id": "1", "text": FERRY}).encode()
    source, stored = tmp_path / "posts", tmp_path / "bad"
    source.write_bytes(b"\n".join([good, bad[0], b"", bad[1], good, bad[2]]))
    done = newsift("filter", "--force", source, "--seeds", seeds, "--rejected", stored)
    assert done.code == 1
    assert "3 of 5 rows could not be read, more than 5%" in done.err.splitlines()[-1]
    assert len(records(done.out)) == 2
    output = [line for line in done.err.splitlines() if "rejected: posts line" in line]
    assert [line.split("line ")[1].split(" (")[0] for line in output] == [
        "2: bad_json", "4: no_text", "6: invalid_utf8",
    ]  # fmt: skip
    assert "5 posts read, 2 matched, 3 rejected (1 bad_json, 1 invalid_utf8, 1 no_text)" in done.err
    assert " matches of " in done.err or " match of " in done.err
    assert stored.read_bytes().split(b"\n") == [*bad, b""]


def test_many_bad_lines_are_counted_not_told(newsift: Command, seeds: Path) -> None:
    stdin = lines({"id": "1", "text": OTHER}) + b"{\n" * 300
    done = newsift("filter", "--force", "--seeds", seeds, stdin=stdin)
    assert done.err.count("newsift: rejected:") == 101
    assert "300 rejected (300 bad_json)" in done.err


def test_a_line_over_the_limit_is_rejected(
    newsift: Command, seeds: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_LIMITS__POST_BYTES", "200")
    monkeypatch.setattr("newsift.files.read.LONGEST_LINE", 500)
    monkeypatch.setattr("newsift.files.read.CHUNK", 64)
    stdin = lines({"id": "1", "text": "x" * 5000}, {"id": "2", "text": FERRY})
    done = newsift("filter", "--force", "--seeds", seeds, stdin=stdin)
    assert [r["post"]["id"] for r in records(done.out)] == ["2"]
    assert "stdin line 1: limits.post_bytes" in done.err


def test_filter_keeps_what_it_found_before_ctrl_c(
    newsift: Command, seeds: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in (("1", FERRY), ("2", OTHER), ("3", FERRY)):
        (tmp_path / f"{name}.jsonl").write_bytes(lines({"id": name, "text": text}))
    run, batches = Pipeline.run, []

    def until_ctrl_c(self: Pipeline, *args: object) -> object:
        batches.append(1)
        if len(batches) == 2:
            raise KeyboardInterrupt
        return run(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Pipeline, "run", until_ctrl_c)
    files = [tmp_path / f"{number}.jsonl" for number in (1, 2, 3)]
    out = tmp_path / "out"
    out.write_bytes(b"old")
    done = newsift("filter", "--force", *files, "--seeds", seeds, "--no-why", "--out", out)
    assert done.code == 130, done.err
    assert '"id":"1"' in out.read_text("utf-8")
    assert "1 posts read" in done.err
    assert done.err.endswith("newsift: interrupted\n")


REFUSED = [
    (["--seeds", "nowhere.md"], b"", "nowhere.md: cannot be read"),
    (["--seeds", "empty"], b"", "holds no seed"),
    (["--seeds", "bad.json"], b"", "seed 'bad': is refused: threshold: 1.5"),
    (["--seeds", "-"], b"", "--seeds -: standard input holds the posts; name a file"),
    (["--seeds", "emoji.md"], b"", "seed 'emoji': is refused: text: holds no word"),
    (["--seeds", "good", "--threshold", "2"], b"", "'--threshold': 2.0 is not in the range 0<x<=1"),
    (["--seeds", "good", "--rate", "0"], b"", "'--rate': 0.0 is not in the range"),
    (["--seeds", "good", "--format", "tiktok"], b"", "tiktok"),
    (["--seeds", "good", "none.jsonl"], b"", "none.jsonl: cannot be read"),
    (["--seeds", "good", "--out", "no/such/file"], b"", "there is no folder"),
    (["--seeds", "good", "bad.json", "--out", "bad.json"], b"", "is an input itself"),
    (["--seeds", "good", "--out", "x", "--rejected", "x"], b"", "name two files"),
    (["--seeds", "good"], b'[\n{"id": "1"}]', "item 1: is not understood: text: missing"),
    (["--seeds", "good", "--format", "twarc"], b"just\nwords\n", "--format twarc is JSON"),
]


@pytest.mark.parametrize(("args", "stdin", "message"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(
    newsift: Command, seeds: Path, tmp_path: Path, args: list[object], stdin: bytes, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "good").symlink_to(seeds)
    (tmp_path / "bad.json").write_text('{"text": "x", "threshold": 1.5}', "utf-8")
    (tmp_path / "emoji.md").write_text("🔥🔥", "utf-8")
    done = newsift("filter", "--force", *args, stdin=stdin)
    assert (done.code, done.out) == (2, "")
    assert message in done.err.splitlines()[-1]
