"""A researcher's first day: from an empty broker to a file, with a real worker behind it."""

import csv
import io
import json
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.newsift.cli.events.ferry import ARTICLES, sample_posts
from tests.newsift.desk.browser.window import SETTLED_MS, Window
from tests.newsift.desk.place import Place

TITLE, TEXT = ARTICLES["fire"]
JUDGED = 10


def add_an_article(page: Page) -> None:
    page.get_by_role("link", name="Add the first seed").click()
    page.get_by_role("link", name="Add an article").click()
    page.get_by_label("Paste a text").fill(f"# {TITLE}\n\n{TEXT}")
    page.get_by_role("button", name="Read the text").click()
    page.get_by_label("Event").fill("ferry")
    page.get_by_role("button", name="Publish 1 seed").click()
    expect(page.get_by_text("it is on the topic")).to_be_visible()


def matched_posts(place: Place) -> set[str]:
    return {row["post"]["id"] for row in place.values("matches")}


def judge(page: Page, place: Place) -> None:
    page.get_by_role("link", name="Judge").click()
    post = page.locator(".post .words")
    for number in range(1, JUDGED + 1):
        text = post.inner_text()
        page.keyboard.press("y")
        expect(post).not_to_have_text(text)
        expect(page.get_by_text(f"{number} label{'s' * (number > 1)} of yours")).to_be_visible()
    counts = json.loads(place.newsift("labels", "list", "--json").splitlines()[0])
    assert (counts["on"], counts["certify"]) == (JUDGED, JUDGED)


def save_csv(page: Page) -> list[dict[str, str]]:
    page.get_by_role("link", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save CSV", exact=True).click()
    text = Path(download.value.path()).read_text("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_an_event_from_its_first_article_to_a_file_and_through_the_loss_of_a_worker(
    window: Window, place: Place
) -> None:
    worker = place.worker()
    page = window.open()
    add_an_article(page)
    state = page.get_by_role("banner").get_by_role("link")
    expect(state.filter(has_text="all well")).to_be_visible(timeout=SETTLED_MS)
    posts = sample_posts()
    place.send("posts", *((str(post["id"]), post) for post in posts))
    page = window.open("event/ferry")
    expect(page.locator("article.match").first).to_contain_text("plain", timeout=SETTLED_MS)
    judge(page, place)
    rows = save_csv(page)
    assert {row["post_id"] for row in rows} == matched_posts(place)
    texts = {row["text"].removeprefix("'") for row in rows}  # no cell is a formula
    assert texts <= {str(post["text"]) for post in posts}
    worker.kill()
    expect(state.filter(has_text="no worker")).to_be_visible(timeout=SETTLED_MS)
    place.worker()
    expect(state.filter(has_text="all well")).to_be_visible(timeout=SETTLED_MS)
