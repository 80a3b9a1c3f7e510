import json
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from tests.broker.server import Server
from tests.newsift.desk.browser.browser_window import Window
from tests.newsift.desk.desk_topics import DeskProcess, Place
from tests.newsift.desk.sample_topics import EVENT, FOE, stocked

AXE = (files("axe_playwright_python") / "axe.min.js").read_text("utf-8")
TABS = ("", "/matches", "/scores", "/judge", "/learned")
PAGES = ["", "seeds", "seeds/add", *(f"event/{EVENT}{tab}" for tab in TABS)]
HOSTILE = ["", "seeds", *(f"event/{quote(FOE, safe='')}{tab}" for tab in TABS)]
SMALL, WIDE = {"width": 360, "height": 740}, {"width": 1280, "height": 900}


@pytest.fixture(scope="module")
def stocked_desk(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DeskProcess]:
    with closing(Place(server, tmp_path_factory.mktemp("stocked"))) as place:
        stocked(place, hostile=True)
        yield place.desk("--read-only")


@pytest.fixture(params=["light", "dark"])
def look(
    request: pytest.FixtureRequest, browser: Browser, stocked_desk: DeskProcess
) -> Iterator[Window]:
    window = Window(browser, stocked_desk.address, color_scheme=request.param, viewport=WIDE)
    window.bears("409", "502")  # what an event lacks is refused in words, on the page
    yield window
    window.close()


def barriers(page: Page) -> list[str]:
    page.evaluate(AXE)
    assert page.locator("h1").count() == 1
    result = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    grave = [each for each in result["violations"] if each["impact"] in ("serious", "critical")]
    return [f"{each['id']}: {json.dumps(node['target'])} {node['html'][:200]}"
            for each in grave for node in each["nodes"]]  # fmt: skip


@pytest.mark.parametrize("where", PAGES)
def test_every_page_is_accessible(look: Window, where: str) -> None:
    assert barriers(look.settled(where)) == []


@pytest.mark.parametrize("where", [*PAGES, *HOSTILE[2:]])
def test_hostile_records_neither_run_nor_break_a_narrow_page(
    browser: Browser, stocked_desk: DeskProcess, where: str
) -> None:
    with closing(Window(browser, stocked_desk.address, viewport=SMALL)) as window:
        window.bears("409", "502")
        page = window.settled(where)
        assert page.evaluate("document.documentElement.scrollWidth") <= SMALL["width"]
        assert page.locator("script:not([src='/desk.js']), iframe, object, embed").count() == 0
        links = page.locator("a").evaluate_all("(all) => all.map((each) => each.href)")
        assert [link for link in links if not link.startswith(("http:", "https:", "blob:"))] == []


WRONG = {
    "connect-src": "fetch('http://elsewhere.example/')",
    "another host": "open('http://elsewhere.example/')",
    "trusted-types": "document.body.innerHTML = '<b>x</b>'",
    "style-src": "document.body.setAttribute('style', 'color: red')",
    "error: thrown": "setTimeout(() => { throw new Error('thrown') })",
    "console: said": "console.error('said')",
    "dialog: seen": "alert('seen')",
}


@pytest.mark.parametrize("fault", WRONG)
def test_a_forbidden_action_of_a_page_fails_the_test(
    browser: Browser, desk: DeskProcess, fault: str
) -> None:
    window = Window(browser, desk.address)
    page = window.open()
    page.evaluate(f"async () => {{ try {{ await ({WRONG[fault]}) }} catch {{}} }}")
    page.wait_for_timeout(100)
    with pytest.raises(AssertionError) as caught:
        window.close()
    assert fault in str(caught.value)
