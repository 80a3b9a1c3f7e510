"""Export as a person does it: files that are saved, figures that are seen."""

import csv
import io
import sqlite3
from collections.abc import Callable
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
NARROW = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}


@pytest.fixture(autouse=True)
def _matches(place: Place) -> None:
    odd = record("=1+1", 0.9, event=HOSTILE, text=HOSTILE)
    place.send("matches", *[(None, each) for each in [*MADE, odd]])


def opened(window: Window, event: str = "ferry") -> Page:
    page = window.open(f"event/{quote(event, safe='')}/export")
    expect(page.get_by_role("heading", name="Figures")).to_be_visible()
    return page


def saved(page: Page, button: str, at: int = 0) -> tuple[str, bytes]:
    """What is saved as which name by pressing a button."""
    with page.expect_download() as found:
        page.get_by_role("button", name=button, exact=True).nth(at).click()
    return found.value.suggested_filename, Path(found.value.path()).read_bytes()


def test_files_hold_what_the_topic_holds(window: Window, tmp_path: Path) -> None:
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
    assert saved(page, "Save JSON lines")[0] == "newsift-ferry-matches.jsonl"
    expect(page.get_by_role("button", name="Save labels")).to_be_disabled()


def test_what_is_chosen_narrows_all(window: Window) -> None:
    page = opened(window)
    page.get_by_label("Score at least").fill("0.6")
    page.get_by_role("button", name="Apply").click()
    kept = {each["post"]["id"] for each in MADE if each["matches"][0]["score"] >= 0.6}
    expect(page.get_by_text(f"{len(kept)} posts", exact=True)).to_be_visible()
    rows = list(csv.DictReader(io.StringIO(saved(page, "Save CSV")[1].decode(), newline="")))
    assert {row["post_id"] for row in rows} == kept
    page.get_by_role("button", name="All again").click()
    expect(page.get_by_text(f"{len(POSTS)} posts", exact=True)).to_be_visible()


def test_figures_are_seen(window: Window) -> None:
    page = opened(window)
    for name in ("Matches by the hour", "Scores, beside the background"):
        picture = page.get_by_role("img", name=name)
        expect(picture).to_have_js_property("naturalWidth", 720)


def test_hostile_names_and_posts(window: Window) -> None:
    page = opened(window, HOSTILE)
    expect(page.get_by_text("1 post", exact=True)).to_be_visible()
    name, content = saved(page, "Save CSV")
    assert not {"/", "<", ">", "|", '"', "\u202e"} & set(name)
    row = next(csv.DictReader(io.StringIO(content.decode(), newline="")))
    assert row["post_id"] == "'=1+1"
    expect(page.get_by_role("img").nth(1)).to_have_js_property("naturalWidth", 720)


def test_a_refusal_is_told_in_its_own_words(window: Window, place: Place) -> None:
    window.bears("409")
    page = opened(window)
    for name, value in (("From", "2026-11-23T10:00"), ("Until", "2026-11-22T10:00")):
        page.get_by_label(name, exact=True).fill(value)
    page.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("is not after since")
    page.get_by_role("button", name="Save CSV").click()
    expect(page.locator(".news")).to_contain_text("is not after since")


@pytest.mark.parametrize("looks", [NARROW, {}], ids=["narrow", "wide"])
def test_it_fits_the_window(windows: Callable[..., Window], looks: dict[str, object]) -> None:
    page = opened(windows(**looks))
    expect(page.get_by_role("img").nth(1)).to_be_visible()
    wide: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0
