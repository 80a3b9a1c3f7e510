"""`newsift seeds add` with pages that somebody saved, and with an article on standard input."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.newsift.cli.events.ferry import add_posts
from tests.newsift.cli.labels.at_terminal import AtTerminal
from tests.newsift.files.articles.pages import BANNER, STORIES, STORY, TITLE, page
from tests.worker.fake import Command
from tests.worker.kafka_side import SEEDS, Kafka

NAMED_BY_TITLE = b"fire-on-the-ferry-astrid-vane-leaves-nine-missing"


def published(kafka: Kafka) -> dict[bytes, dict[str, Any]]:
    return {record.key: json.loads(record.value) for record in kafka.records(SEEDS)}


def saved(folder: Path, name: str, content: str) -> Path:
    file = folder / name
    file.write_text(content, "utf-8")
    return file


def test_a_folder_of_saved_pages_is_their_stories(
    newsift: Command, kafka: Kafka, tmp_path: Path
) -> None:
    (tmp_path / "saved").mkdir()
    for number, layout in enumerate(("article", "tables", "line breaks")):
        saved(tmp_path, f"saved/{number}.html", STORIES[layout])
    done = newsift("seeds", "add", tmp_path / "saved", "--event", "ferry")
    assert done.code == 0, done.err
    result = published(kafka)
    assert result.keys() == {b"0", b"1", b"2"}
    for value in result.values():
        assert value["title"] == TITLE
        assert all(part in value["text"] for part in STORY)
        assert "cookies" not in value["text"]
        assert value.keys() == {"title", "text", "event"}


def test_a_notice_is_refused_unless_forced(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    good = saved(tmp_path, "good.html", STORIES["article"])
    notice = saved(tmp_path, "notice.html", page(BANNER))
    done = newsift("seeds", "add", good, notice)
    assert (done.code, done.out, published(kafka)) == (2, "", {})
    assert done.err.startswith(
        f"newsift: {notice}: looks like a cookie or consent notice ('We value your privacy. We and "
    )
    assert done.err.endswith("…'); save the text and add the file, or give --force\n")
    assert done.err.count("\n") == 1
    assert newsift("seeds", "add", good, notice, "--force").code == 0
    assert published(kafka)[b"notice"]["text"].startswith("We value your privacy.")


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        (STORIES["article"], NAMED_BY_TITLE, {"title": TITLE}),
        ("# The ferry burns\n\nNear Skerry.", b"the-ferry-burns", {"text": "Near Skerry."}),
        ("Smoke near Skerry.", b"smoke-near-skerry", {"text": "Smoke near Skerry."}),
        ('{"id": "f", "text": "Smoke.", "threshold": 0.5}', b"f", {"threshold": 0.5}),
    ],
)
def test_standard_input_is_one_article(
    newsift: Command, kafka: Kafka, given: str, key: bytes, value: dict[str, Any]
) -> None:
    done = newsift("seeds", "add", "-", "--force", stdin=given.encode())
    assert done.code == 0, done.err
    ((name, result),) = published(kafka).items()
    assert name == key
    assert result | value == result


@pytest.mark.slow
def test_three_pages_of_an_event_at_a_terminal(kafka: Kafka, tmp_path: Path) -> None:
    add_posts(kafka)
    layouts = ("article", "tables", "plain divs")
    files = [saved(tmp_path, f"{n}.html", STORIES[layout]) for n, layout in enumerate(layouts)]
    with AtTerminal("seeds", "add", *map(str, files), "--event", "ferry") as terminal:
        for number in range(3):
            terminal.hears(f"{number}  ")
            terminal.hears("new, automatic threshold 0.")
        terminal.hears("newsift: event 'ferry': ")
        terminal.hears("of the last 24 hours would have matched:")
        assert "newsift:   0." in terminal.hears("event 'ferry' has 3 seeds")
        assert "fewer than three" not in terminal.hears("[y/N]: ")
        terminal.press("n\n")
        assert terminal.ends() == 0
    assert published(kafka).keys() == {b"0", b"1", b"2"}


def test_standard_input_takes_a_name(newsift: Command, kafka: Kafka) -> None:
    assert newsift("seeds", "add", "-", "--id", "mine", "--force", stdin=b"Smoke.").code == 0
    assert published(kafka).keys() == {b"mine"}
