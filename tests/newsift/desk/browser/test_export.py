"""Export as a person does it: files that are saved, figures that are seen."""

import csv
import io
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import quote
from xml.etree import ElementTree

import pytest
from playwright.sync_api import Page, expect

from tests.newsift.desk.browser.window import Window
from tests.newsift.desk.matched import HOSTILE, many, record
from tests.newsift.desk.place import Place

MADE = many(3, 40)
POSTS = {each["post"]["id"] for each in MADE}


@pytest.fixture(autouse=True)
def _matches(place: Place) -> None:
    odd = record("=1+1", 0.9, event=HOSTILE, text=HOSTILE)
    place.send("matches", *[(None, each) for each in [*MADE, odd]])


def opened(window: Window, event: str = "ferry") -> Page:
    page = window.open(f"event/{quote(event, safe='')}/export")
    expect(page.get_by_role("heading", name="Figures")).to_be_visible()
    return page


def saved(page: Page, button: str, at: int = 0) -> tuple[str, bytes]:
    with page.expect_download() as found:
        page.get_by_role("button", name=button, exact=True).nth(at).click()
    return found.value.suggested_filename, Path(found.value.path()).read_bytes()


def test_saved_files_hold_the_matches_of_the_topic(window: Window, tmp_path: Path) -> None:
    page = opened(window)
    expect(page.get_by_text(f"{len(POSTS)} posts", exact=True)).to_be_visible()
    name, content = saved(page, "Save CSV")
    rows = list(csv.DictReader(io.StringIO(content.decode(), newline="")))
    assert (name, len(rows)) == ("newsift-ferry-matches.csv", len(MADE))
    name, content = saved(page, "Save SQLite")
    (tmp_path / name).write_bytes(content)
    with closing(sqlite3.connect(tmp_path / name)) as db:
        assert {found for (found,) in db.execute("SELECT post_id FROM posts")} == POSTS
    name, content = saved(page, "Save SVG")
    assert name == "newsift-ferry-hours.svg"
    assert ElementTree.fromstring(content).tag.endswith("svg")
    expect(page.get_by_role("button", name="Save labels")).to_be_disabled()
    page.get_by_label("Score at least").fill("0.6")
    page.get_by_role("button", name="Apply").click()
    most = {each["post"]["id"] for each in MADE if each["matches"][0]["score"] >= 0.6}
    expect(page.get_by_text(f"{len(most)} posts", exact=True)).to_be_visible()


def test_hostile_names_and_posts_are_harmless(window: Window) -> None:
    page = opened(window, HOSTILE)
    expect(page.get_by_text("1 post", exact=True)).to_be_visible()
    name, content = saved(page, "Save CSV")
    assert not {"/", "<", ">", "|", '"', "\u202e"} & set(name)
    row = next(csv.DictReader(io.StringIO(content.decode(), newline="")))
    assert row["post_id"] == "'=1+1"
    expect(page.get_by_role("img").nth(1)).to_have_js_property("naturalWidth", 720)
