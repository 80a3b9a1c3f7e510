"""The page of health: what is wrong and what to do, and dead letters with another attempt."""

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.broker.clients import read_to_end
from tests.newsift.desk.browser.window import Window
from tests.newsift.desk.place import Place

BAD = '{"id": "<script>alert(1)</script>\u202e\x1b[31m"'.encode() + b"\xff"
NARROW = {"viewport": {"width": 360, "height": 740}, "color_scheme": "dark"}


@pytest.fixture(autouse=True)
def _no_collectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of this machine are none of the test's."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def posts(place: Place) -> list[bytes | None]:
    return [row.value for row in read_to_end(place.server.address, place.topics["posts"])]


def fits(page: Page) -> bool:
    """Whether the page is no wider than the window."""
    wide: int = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wide <= 0


def test_without_a_worker_every_page_says_so_and_this_one_what_to_do(window: Window) -> None:
    page = window.open()
    marked = page.get_by_role("banner").get_by_role("link", name="no worker")
    expect(marked).to_be_visible()
    marked.click()
    expect(page.get_by_role("list", name="What to do")).to_contain_text(
        "start one with: faust -A worker worker"
    )
    expect(page.get_by_text("no worker answers (Connection refused)")).to_be_visible()


def test_with_a_worker_all_is_well(window: Window, place: Place) -> None:
    page = window.open("health")
    place.worker()
    expect(page.get_by_role("banner").get_by_role("link", name="all well")).to_be_visible(
        timeout=60_000
    )
    expect(page.get_by_text("All well: nothing has to be done.")).to_be_visible()
    expect(page.get_by_role("region", name="Workers in the group")).to_contain_text("0, 1")
    expect(page.get_by_text("ready", exact=True)).to_be_visible()


def test_a_letter_is_shown_with_its_bytes_and_sent_again_once(window: Window, place: Place) -> None:
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
    expect(page.get_by_text("0 letters sent again.")).to_be_visible()
    expect(page.get_by_text("1: it was sent again before")).to_be_visible()
    expect(page.get_by_role("button", name="Send all again that can be")).to_be_focused()
    assert posts(place) == [BAD]


def test_by_reason(window: Window, place: Place) -> None:
    place.send("rejected", *[(None, b"%d" % n) for n in range(13)])
    page = window.open("health")
    expect(page.get_by_role("button", name="all 13")).to_have_attribute("aria-pressed", "true")
    page.get_by_role("button", name="none is named 13").click()
    expect(page.get_by_role("button", name="Show bytes")).to_have_count(10)
    page.get_by_role("button", name="3 older ones").click()
    expect(page.get_by_role("button", name="Show bytes")).to_have_count(13)


@pytest.mark.parametrize("looks", [NARROW, {}], ids=["narrow", "wide"])
def test_it_fits_the_window(
    windows: Callable[..., Window], place: Place, looks: dict[str, object]
) -> None:
    place.send("rejected", (None, b"x" * 3000), ("k" * 300, b"\x00" * 900))
    page = windows(**looks).open("health")
    page.get_by_role("button", name="Show bytes").first.click()
    expect(page.locator("pre.bytes").first).to_be_visible()
    page.get_by_text("By partition").click()
    assert fits(page)


def test_who_only_looks_sends_nothing(windows: Callable[..., Window], place: Place) -> None:
    place.send("rejected", (None, BAD))
    reader = place.desk("--read-only")
    one = windows()
    one.enter(reader.address)
    page = one.open("health")
    expect(page.get_by_role("button", name="Show bytes")).to_be_visible()
    expect(page.get_by_role("button", name="Send")).to_have_count(0)
