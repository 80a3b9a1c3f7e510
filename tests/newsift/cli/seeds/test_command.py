import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoder import Encoder
from newsift.operations.seed_preview import MAX_BEST_POSTS, PreviewLimits
from tests.newsift.cli.events.ferry_event import ARTICLES, add_posts, add_seeds, sample_posts
from tests.newsift.cli.test_matches import rows
from tests.newsift.files.articles.saved_pages import STORIES, STORY
from tests.worker.command_topics import MATCHES, POSTS, SEEDS, Kafka
from tests.worker.event_profiles import profile_of
from tests.worker.fake_command import Command
from worker.seeds.record import Seed, parse_seed_record

FERRY = b'{"text": "A ferry burns.", "title": "Fire", "event": "ferry"}'


def article(folder: Path, name: str, content: str) -> Path:
    file = folder / name
    file.write_text(content, "utf-8")
    return file


def test_files_of_every_kind_become_records(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    files = [
        article(tmp_path, "plain.txt", "Only a text.\n"),
        article(tmp_path, "marked.md", "# The title\n\nThe text – é.\n"),
        article(tmp_path, "one.json", '{"text": "T", "url": "https://x.y", "threshold": 0.5}'),
        article(tmp_path, "two.json", '[{"id": "a", "text": "A"}, {"id": "b", "text": "B"}]'),
        article(tmp_path, "more.jsonl", '{"id": "c", "text": "C"}\n\n{"id": "d", "text": "D"}\n'),
    ]
    done = newsift("seeds", "add", "--force", *files, "--event", "both words")
    assert done.code == 0
    assert "newsift: event 'both words' has 7 seeds: one profile of them all" in done.err
    result = {record.key.decode(): json.loads(record.value) for record in kafka.records(SEEDS)}
    event = {"event": "both words"}
    assert result == {
        "plain": {"text": "Only a text."} | event,
        "marked": {"text": "The text – é.", "title": "The title"} | event,
        "one": {"text": "T", "url": "https://x.y", "threshold": 0.5} | event,
        **{name: {"text": name.upper()} | event for name in "abcd"},
    }
    assert all(("schema", b"newsift.seed/1") in record.headers for record in kafka.records(SEEDS))
    marked = parse_seed_record(b"marked", kafka.records(SEEDS)[1].value)
    assert isinstance(marked, Seed)
    assert f"marked  {marked.version}  new, automatic threshold" in done.out
    assert "one  " in done.out
    assert "new, threshold 0.5" in done.out


def test_the_first_seed_makes_the_topic_where_that_is_allowed(
    newsift: Command, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_TOPICS__SEEDS", "new-seeds")
    add = ["seeds", "add", "--force", "--no-preview", article(tmp_path, "one.txt", "A ferry.\n")]
    monkeypatch.setenv("NEWSIFT_TOPICS__CREATE", "false")
    assert newsift(*add).code == 2
    monkeypatch.delenv("NEWSIFT_TOPICS__CREATE")
    assert newsift(*add).code == 0
    assert [record.key for record in kafka.records("new-seeds")] == [b"one"]


def test_one_article_under_two_ids_is_reported(
    newsift: Command, kafka: Kafka, tmp_path: Path
) -> None:
    add = ["seeds", "add", "--force", "--no-preview", article(tmp_path, "one.txt", "A ferry.\n")]
    assert "'one'" not in newsift(*add, "--event", "ferry").err
    assert "'one', 'two'" in newsift(*add, "--event", "ferry", "--id", "two").err


def test_a_page_of_standard_input_is_named_by_its_title(newsift: Command, kafka: Kafka) -> None:
    assert newsift("seeds", "add", "-", stdin=STORIES["article"].encode()).code == 0
    (record,) = kafka.records(SEEDS)
    assert record.key == b"fire-on-the-ferry-astrid-vane-leaves-nine-missing"
    assert all(part in json.loads(record.value)["text"] for part in STORY)


def test_options_override_the_file(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    file = article(tmp_path, "a.json", '{"text": "T", "title": "old", "threshold": 0.1, "x": 1}')
    options = ["--id", "mine", "--title", "new", "--threshold", "0.7"]
    moment = "2031-01-31T12:00:00+01:00"
    done = newsift("seeds", "add", "--force", file, *options, "--expires-at", moment, "--json")
    assert rows(done.out)[0]["published"] == "new"
    assert "ignored: x;" in done.err
    record = kafka.records(SEEDS)[0]
    assert record.key == b"mine"
    assert json.loads(record.value) == {
        "text": "T", "title": "new", "threshold": 0.7, "expires_at": "2031-01-31T11:00:00.000Z",
    }  # fmt: skip


def test_list_shows_a_profile_in_the_place_of_its_seeds(
    newsift: Command, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    kafka.send(SEEDS, b'{"text": "A cat show."}', b"cats")
    profile = profile_of(enc, "ferry", ARTICLES)
    kafka.send(SEEDS, profile.value(), b"profile|ferry")
    result = {row["id"]: row for row in rows(newsift("seeds", "list", "--json").out)}
    assert {name: row["state"] for name, row in result.items()} == {
        "cats": "live", "fire": "replaced", "rescue": "replaced", "profile|ferry": "live",
    }  # fmt: skip
    learned = result["profile|ferry"]
    assert (learned["seeds"], learned["seed_version"]) == (["fire", "rescue"], profile.version)
    assert result["fire"]["replaced_by"] == "profile|ferry"
    assert newsift("seeds", "list").out.count("  for fire, rescue\n") == 1
    assert json.loads(newsift("status", "--json").out)["seeds"] == {
        "live": 2, "expired": 0, "paused": 0, "replaced": 2,
        "refused": {}, "stale": {}, "unknown": {},
    }  # fmt: skip
    assert "2 live, 2 articles by their event's profile" in newsift("status").out
    refused = newsift("seeds", "set", "profile|ferry", "--paused")
    assert (refused.code, "only the threshold can be set" in refused.err) == (2, True)


def test_show_prints_the_whole_text(newsift: Command, kafka: Kafka) -> None:
    kafka.send(SEEDS, FERRY, b"f")
    out = newsift("seeds", "show", "f").out
    assert out.endswith("\n\nA ferry burns.\n")
    assert rows(newsift("seeds", "show", "f", "--json").out)[0]["text"] == "A ferry burns."
    kafka.send(SEEDS, b"{broken", b"f")
    assert "{broken" in newsift("seeds", "show", "f").out


def test_remove_takes_all_or_none(newsift: Command, kafka: Kafka) -> None:
    for key in (b"a", b"b", b"\xff", b""):
        kafka.send(SEEDS, FERRY, key)
    assert newsift("seeds", "remove", "a", "nope").code == 2
    assert len(kafka.records(SEEDS)) == 4
    done = newsift("seeds", "remove", "a", "\\xff", "")
    assert (done.code, done.out) == (0, "a  removed\n\\xff  removed\n  removed\n")
    removed = [(r.key, r.value) for r in kafka.records(SEEDS)[4:]]
    assert removed == [(b"a", None), (b"\xff", None), (b"", None)]
    assert newsift("seeds", "remove", "a").code == 2


def test_an_id_counts_more_than_a_key_that_is_shown_like_it(newsift: Command, kafka: Kafka) -> None:
    for key in (b"\xff", b"\\xff"):
        kafka.send(SEEDS, FERRY, key)
    assert newsift("seeds", "remove", "\\xff").code == 0
    assert kafka.records(SEEDS)[-1].key == b"\\xff"


def test_no_seed_displaces_another_at_the_limit(
    newsift: Command, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_LIMITS__SEEDS", "1")
    kafka.send(SEEDS, FERRY, b"ferry")
    kafka.send(SEEDS, b'{"text": "A cat show.", "paused": true}', b"cats")
    file = article(tmp_path, "a.txt", "One more.")
    for command in (["add", "--force", file], ["set", "cats", "--resumed"]):
        done = newsift("seeds", *command)
        assert (done.code, "limits.seeds: 1 are allowed" in done.err) == (2, True)
    assert len(kafka.records(SEEDS)) == 2
    assert newsift("seeds", "add", "--force", file, "--id", "ferry").code == 0
    assert newsift("seeds", "set", "ferry", "--paused").code == 0
    assert newsift("seeds", "set", "cats", "--resumed").code == 0


def test_set_changes_only_the_named_fields(newsift: Command, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "Old."}', b"a")
    kafka.send(SEEDS, b'{"text": "New.", "threshold": 3, "note": [1], "event": "e"}', b"a")
    assert newsift("seeds", "set", "a", "--threshold", "0.4").code == 0
    args = ("--event", "", "--expires-at", "2031-01-01T00:00:00Z")
    assert newsift("seeds", "set", "a", *args).code == 0
    assert json.loads(kafka.records(SEEDS)[-1].value) == {
        "text": "New.", "threshold": 0.4, "note": [1], "expires_at": "2031-01-01T00:00:00.000Z",
    }  # fmt: skip
    done = newsift("seeds", "set", "a", "--threshold", "auto", "--expires-at", "never", "--json")
    assert rows(done.out)[0] | {"published": "changed", "threshold": None} == rows(done.out)[0]
    assert json.loads(kafka.records(SEEDS)[-1].value) == {"text": "New.", "note": [1]}
    assert newsift("seeds", "set", "a", "--paused").code == 0
    assert rows(newsift("seeds", "list", "--json").out)[0]["state"] == "paused"
    assert "1 paused" in newsift("status").out
    assert newsift("seeds", "set", "a", "--resumed").code == 0
    assert json.loads(kafka.records(SEEDS)[-1].value) == {"text": "New.", "note": [1]}


RECORDS: dict[bytes, bytes] = {
    b"ferry": b'{"text": "A ferry burns.",  "mine": [1, {"a": null}]}',
    "dämme\u2028".encode(): '{"text": "Überflutung \\u00e9"}'.encode(),
    b"odd": b"{not json\r\n\x1b[31m",
    b"\xff\xfe": b"\xff raw \x00",
    b"empty": b"",
    b"later": b'{"text": "Second."}',
}


def state_of(kafka: Kafka) -> dict[bytes, bytes]:
    latest = {record.key: record.value for record in kafka.records(SEEDS)}
    return {key: value for key, value in latest.items() if value is not None}


@pytest.mark.parametrize("name", ["seeds.jsonl", "seeds.json.gz", "-"])
def test_import_restores_exports(newsift: Command, kafka: Kafka, name: str) -> None:
    for gone in (b'{"text": "Gone."}', None):
        kafka.send(SEEDS, gone, b"gone")
    for key, value in RECORDS.items():
        kafka.send(SEEDS, b'{"text": "First."}', key)
        kafka.send(SEEDS, value, key)
    done = newsift("seeds", "export", name)
    assert (done.code, "6 seeds exported" in done.err) == (0, True)
    listed = newsift("seeds", "list").out
    for key in RECORDS:
        kafka.send(SEEDS, None, key)
    assert state_of(kafka) == {}
    done = newsift("seeds", "import", name, stdin=done.out.encode())
    assert (done.code, "6 seeds imported" in done.err) == (0, True)
    assert "refused, as in every worker: odd: value: bad JSON" in done.err
    assert state_of(kafka) == RECORDS
    assert newsift("seeds", "list").out == listed


def test_import_replaces_no_valid_seed_by_a_record_that_workers_refuse(
    newsift: Command, kafka: Kafka, tmp_path: Path
) -> None:
    before = {b"live": b'{"text": "First."}', b"other": b'{"text": 5}'}
    for key, value in before.items():
        kafka.send(SEEDS, value, key)
    file = tmp_path / "seeds.jsonl"
    records = {"new": '{"text": "Second."}', "other": '{"text": 6}', "live": '{"text": 7}'}
    lines = [json.dumps({"key": key, "value": value}) for key, value in records.items()]
    file.write_text("\n".join(lines) + "\n", "utf-8")
    done = newsift("seeds", "import", str(file))
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert f"{file}: live: text" in done.err
    assert state_of(kafka) == before
    file.write_text("\n".join(lines[:2]) + "\n", "utf-8")
    assert newsift("seeds", "import", str(file)).code == 0
    assert state_of(kafka)[b"other"] == b'{"text": 6}'


TITLE, TEXT = ARTICLES["fire"]


@pytest.fixture(autouse=True)
def _no_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.cli.seed_publication.SCRIPT_LIMITS", PreviewLimits(5_000, 60.0))


@pytest.fixture
def fire(tmp_path: Path) -> Path:
    file = tmp_path / "fire.md"
    file.write_text(f"# {TITLE}\n\n{TEXT}\n")
    return file


def test_add_previews_the_matches(newsift: Command, kafka: Kafka, enc: Encoder, fire: Path) -> None:
    add_posts(kafka)
    kafka.send(POSTS, b'{"id": "old", "text": "%b"}' % TEXT.encode(), at=1_000_000)
    kafka.send(POSTS, b'{"id": "gone", "text": "%b"}' % TEXT.encode())
    deletion = {"post": {"id": "gone", "platform": "plain"}, "deleted_at": "2026-03-01T10:00:00Z"}
    kafka.send(MATCHES, json.dumps(deletion).encode(), b"gone")
    kafka.send(POSTS, b"no post")
    done = newsift("seeds", "add", fire, "--event", "ferry")
    assert done.code == 0, done.err
    cut = float(enc.thresholds(enc.articles([(TITLE, TEXT)]), 0.001)[0])
    assert f"new, automatic threshold {cut:.4f} (1 in 1,000 everyday posts reaches it)" in done.out
    vectors = enc.posts([str(post["text"]) for post in sample_posts()])
    seeds = enc.articles([(TITLE, TEXT)])
    best = vectors.similarity(seeds).max(axis=1)
    expected = sorted(best[best >= enc.thresholds(seeds, 0.001)], reverse=True)
    # And the one that was deleted, which matches nothing any more.
    read = 1 + np.count_nonzero(vectors.dense.any(axis=1) | (np.diff(vectors.lexical.indptr) > 0))
    of = f"{len(expected)} of {read} posts of the last 24 hours"
    head = f"'ferry': {of} would have matched:"
    assert head in done.err
    shown = [line for line in done.err.splitlines() if line.startswith("newsift:   0.")]
    assert 0 < len(shown) <= MAX_BEST_POSTS
    assert float(shown[0].split()[1]) == pytest.approx(expected[0], abs=0.0051)
    assert "event 'ferry' has fewer than three articles: with three an event found" in done.err
    assert newsift("seeds", "list").out.splitlines()[1].split()[4:6] == ["auto", f"{cut:.4f}"]
    (row,) = rows(newsift("seeds", "add", fire, "--event", "ferry", "--json", "--preview").out)
    assert row["auto_threshold"] == pytest.approx(cut)
    counts = {"posts": read, "matched": len(expected), "whole": True, "hours": 24}
    assert row["preview"].items() >= counts.items()
    assert len(row["preview"]["best"]) <= MAX_BEST_POSTS


def test_publishes_without_a_model(
    newsift: Command, kafka: Kafka, fire: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from encoder.errors import ModelError

    def load(*_: Any, **__: Any) -> None:
        raise ModelError("model 'gone': there is none of this name")

    monkeypatch.setattr("encoder.load", load)
    done = newsift("seeds", "add", fire)
    assert done.code == 0
    assert "thresholds and matches are not shown: model 'gone': there is none" in done.err
    assert len(kafka.records(SEEDS)) == 1
    assert newsift("seeds", "list").out.splitlines()[1].split()[4] == "auto"
