"""Seeds of files and folders: their ids, their events, and what is no article."""

import json
from pathlib import Path
from typing import Any

import pytest

from encoder.errors import InputError
from newsift.operations.seed_drafts import read_seed_files, require_articles, seed_id, with_event

pytestmark = pytest.mark.usefixtures("read_in_process")

TEXT = "Smoke rose above the harbour. " * 8  # 40 words


def event_of(record: dict[str, Any]) -> Any:
    return record.get("event")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two articles of their own, and two subfolders."""
    folder = tmp_path / "articles"
    for file, content in {
        "fire.md": f"# Fire\n\n{TEXT}",
        "saved.html": f"<html><body><p>{TEXT}</p></body></html>",
        "saved_files/frame.html": "<html></html>",
        "dam/one.txt": TEXT,
        "dam/own.json": json.dumps({"text": TEXT, "event": "its own"}),
        "dam/more.jsonl": json.dumps({"id": "a", "text": TEXT})
        + "\n" + json.dumps({"key": "profile|x", "value": json.dumps({"event": "x"})}),
        "boston/one.txt": TEXT,
        ".hidden/one.txt": TEXT,
    }.items():  # fmt: skip
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content)
    return folder


def test_a_subfolder_is_an_event_of_its_name(folder: Path) -> None:
    drafts = read_seed_files([folder])
    assert {draft.id: event_of(draft.record) for draft in drafts} == {
        "fire": None, "saved": None, "boston/one": "boston", "dam/one": "dam",
        "dam/own": "its own", "a": "dam", "profile|x": "x",
    }  # fmt: skip


def test_an_event_that_is_named_counts_more(folder: Path) -> None:
    (folder / "dam/more.jsonl").unlink()
    drafts = with_event(read_seed_files([folder / "dam", folder / "fire.md"]), "one")
    assert [(draft.id, event_of(draft.record)) for draft in drafts] == [
        ("one", "one"), ("own", "one"), ("fire", "one"),
    ]  # fmt: skip


def test_a_profile_belongs_to_its_event(folder: Path) -> None:
    with pytest.raises(InputError, match="is the profile of an event; leave --event out"):
        with_event(read_seed_files([folder]), "one")


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("dam/deep/one.txt", "articles/dam/deep: is deeper than the folder of an event"),
        ("empty/notes.pdf", "articles/empty: holds no seed (.txt,"),
    ],
)
def test_folders_that_are_no_events_are_refused(folder: Path, file: str, message: str) -> None:
    (folder / file).parent.mkdir()
    (folder / file).write_text(TEXT)
    with pytest.raises(InputError) as refused:
        read_seed_files([folder])
    assert message in str(refused.value)


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.json", "a.html"])
def test_an_article_of_too_few_words_is_refused(tmp_path: Path, name: str) -> None:
    text = TEXT.removesuffix("harbour. ")
    content = {"a.json": json.dumps({"text": text}), "a.html": f"<html><p>{text}</p></html>"}
    (tmp_path / name).write_text(content.get(name, text))
    drafts = read_seed_files([tmp_path / name])
    with pytest.raises(InputError, match=r"a\.\w+: has 39 words, and an article has 40 .*--force"):
        require_articles(drafts)


@pytest.mark.parametrize(
    ("title", "url", "expected"),
    [
        ("Fire on the Ferry: 9 missing!", "https://x.y/z", "fire-on-the-ferry-9-missing"),
        ("", "https://news.example/2026/ferry-fire.html", "news-example-2026-ferry-fire-html"),
        ("Ж" * 100, "https://x.y", "ж" * 59 + "…"),
        ("…", "", "article"),
    ],
)
def test_an_id_for_people(title: str, url: str, expected: str) -> None:
    assert seed_id(title, url) == expected
