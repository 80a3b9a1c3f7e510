"""The frame around every page: where one can go, who one is, and what is kept between visits."""

from contextlib import closing

import pytest
from playwright.sync_api import Browser, expect

from tests.newsift.desk.browser.window import Window
from tests.newsift.desk.place import DeskProcess, Place

TOKEN = "correct horse battery"
PAGES = {"": "Events", "seeds": "Seeds", "health": "Health", "constructor": "Events"}


@pytest.mark.parametrize("where", PAGES)
def test_every_page_opens_and_marks_its_entry(window: Window, where: str) -> None:
    page = window.open(where)
    marked = page.get_by_role("navigation").locator("[aria-current=page]")
    expect(marked).to_have_text(PAGES[where])
    expect(page).to_have_title(f"{PAGES[where]} – newsift")


def test_the_keyboard_opens_a_page_and_a_name_survives_a_reload(window: Window) -> None:
    page = window.settled()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the page")).to_be_focused()
    for _ in range(4):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{window.url}#/health")
    expect(page.get_by_role("main")).to_be_focused()
    page.get_by_label("You are").fill("Ann")
    page.get_by_label("You are").press("Enter")
    page.reload()
    expect(page.get_by_label("You are")).to_have_value("Ann")


def test_a_page_without_a_session_requests_the_token(window: Window, place: Place) -> None:
    window.bears("401")
    window.enter(place.desk(NEWSIFT_DESK__TOKEN=TOKEN).address)
    page = window.open()
    field = page.get_by_label("The desk's token")
    field.fill(f"not {TOKEN}")
    field.press("Enter")
    expect(page.get_by_text("token: is not the desk's")).to_be_visible()
    field.fill(TOKEN)
    field.press("Enter")
    expect(page.get_by_role("heading", name="Events")).to_be_visible()
    window.context.clear_cookies()
    page.get_by_role("link", name="Seeds").click()
    expect(field).to_be_visible()


def test_the_printed_address_opens_the_desk_and_hides_the_token(
    browser: Browser, desk: DeskProcess
) -> None:
    with closing(Window(browser, desk.url)) as window:
        window.page.goto(f"{desk.address}#/seeds")
        expect(window.page.get_by_role("heading", name="Seeds")).to_be_visible()
        expect(window.page).to_have_url(f"{desk.url}#/seeds")
