"""Events and their matches in a window: strangers' text, stories, holding, filters and keys."""

from playwright.sync_api import expect

from tests.newsift.desk.browser.window import Window
from tests.newsift.desk.matched import HOSTILE, record
from tests.newsift.desk.place import Place


def test_matches_are_listed_filtered_and_held(window: Window, place: Place) -> None:
    page = window.open()
    expect(page.get_by_role("link", name="Add the first seed")).to_be_visible()
    first = record("1", 0.5, event=HOSTILE, text=HOSTILE, group="g")
    copy = record("2", 0.6, event=HOSTILE, text="the ferry again", group="g")
    other = record("3", 0.9, event=HOSTILE, text="a fire", group="h")
    place.send("matches", *((None, each) for each in (first, copy, other)))
    page.get_by_role("main").get_by_role("link", name="<script>").click()
    cards = page.locator("article")
    expect(cards).to_have_count(2)
    page.get_by_role("button", name="and 1 more that says the same").click()
    expect(page.get_by_text("the ferry again")).to_be_visible()
    page.get_by_role("searchbox", name="Words or author").fill("FIRE")
    expect(cards).to_have_count(1)
    page.reload()
    expect(cards).to_have_count(1)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="All", exact=True).click()
    expect(cards).to_have_count(2)
    page.get_by_role("button", name="Pause").click()
    place.send("matches", (None, record("4", 0.7, event=HOSTILE, group="i")))
    fresh = page.get_by_role("button", name="1 new")
    expect(fresh).to_be_visible()
    expect(cards).to_have_count(2)
    fresh.click()
    expect(page.get_by_role("main")).to_be_focused()
    expect(cards).to_have_count(3)
    page.keyboard.press("j")
    expect(cards.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(cards.first.get_by_role("table")).to_contain_text("0.700")
