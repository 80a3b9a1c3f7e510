"""The page reports a desk or a broker that is gone, and recovers by itself."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.broker.server import Server, opened
from tests.newsift.desk.browser.window import Window
from tests.newsift.desk.place import DeskProcess, Place

HEALS_MS = 60_000.0
ARTICLE = "A fire on the car deck of the ferry Astrid Vane forced passengers into lifeboats."


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    with opened("embedded", tmp_path / "broker") as server:
        yield server


def test_the_page_recovers_from_a_restart_of_the_desk(
    window: Window, place: Place, desk: DeskProcess
) -> None:
    window.bears("ERR_", "401")
    page = window.open("seeds")
    port = desk.port
    desk.end()
    expect(page.get_by_text("the desk does not answer").first).to_be_visible()
    place.send("seeds", ("one", {"text": ARTICLE, "title": "Fire on a ferry"}))
    again = place.desk(port=port)
    asked = page.get_by_label("The desk's token")
    asked.fill(again.address.partition("=")[2], timeout=HEALS_MS)
    asked.press("Enter")
    expect(page.get_by_text("the desk does not answer")).to_have_count(0, timeout=HEALS_MS)
    expect(page.get_by_text("Fire on a ferry").first).to_be_visible(timeout=HEALS_MS)


def test_the_page_recovers_from_a_restart_of_the_broker(
    browser: Browser, own_server: Server, tmp_path: Path
) -> None:
    with (
        closing(Place(own_server, tmp_path)) as place,
        closing(Window(browser, place.desk().address)) as window,
    ):
        window.bears("409", "502")
        page = window.open("health")
        there = page.get_by_text("There since")
        expect(there).to_be_visible(timeout=HEALS_MS)
        own_server.stop()
        expect(there).to_have_count(0, timeout=HEALS_MS)
        own_server.start()
        expect(there).to_be_visible(timeout=HEALS_MS)
        place.send("seeds", ("one", {"text": ARTICLE, "title": "Fire on a ferry"}))
        shown = window.open("seeds").get_by_text("Fire on a ferry").first
        expect(shown).to_be_visible(timeout=HEALS_MS)
