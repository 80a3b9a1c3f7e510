"""The page of health: what is wrong and what to do, and dead letters with another attempt."""

from playwright.sync_api import expect

from tests.broker.clients import read_to_end
from tests.newsift.desk.browser.window import Window
from tests.newsift.desk.place import Place

BAD = '{"id": "<script>alert(1)</script>\u202e\x1b[31m"'.encode() + b"\xff"


def posts(place: Place) -> list[bytes | None]:
    return [row.value for row in read_to_end(place.server.address, place.topics["posts"])]


def test_a_missing_worker_is_reported_with_the_remedy(window: Window) -> None:
    page = window.open()
    marked = page.get_by_role("banner").get_by_role("link", name="no worker")
    expect(marked).to_be_visible()
    marked.click()
    expect(page.get_by_role("list", name="What to do")).to_contain_text("faust -A worker worker")


def test_a_dead_letter_is_shown_with_its_bytes_and_sent_again_once(
    window: Window, place: Place
) -> None:
    place.send("rejected", (None, BAD))
    page = window.open("health")
    page.get_by_role("button", name="Show bytes").click()
    text = page.locator("pre.bytes").first
    expect(text).to_have_text('{"id": "<script>alert(1)</script>\\u202e\\x1b[31m"\\xff')
    expect(page.locator("pre.bytes").nth(1)).to_contain_text("00000000  7b 22 69 64")
    page.get_by_role("button", name="Send again", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Send again").click()
    expect(page.get_by_text("1 letter sent again.")).to_be_visible()
    assert posts(place) == [BAD]
    page.get_by_role("button", name="Close").click()
    expect(page.get_by_text("Not sent again: it was sent again from here")).to_be_visible()
    page.get_by_role("button", name="Send all again that can be").click()
    page.get_by_role("dialog").get_by_role("button", name="Send again").click()
    expect(page.get_by_text("1: it was sent again before")).to_be_visible()
    assert posts(place) == [BAD]
