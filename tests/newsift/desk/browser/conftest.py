"""The desk as a person has it: a window of a browser on a desk of the test's own.

A test that takes `window` goes to `window.open("seeds")`. It fails for any error of the console,
any breach of the page's policy and any request to another host; what it brings about on purpose
it names: `window.bears("409")`. It sets a route before it opens the page: on a busy machine the
browser may send a request past a route that was set just before.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser

from tests.newsift.desk.browser.browser_window import CHROMIUM, MISSING, Window, chromium
from tests.newsift.desk.desk_topics import DeskProcess, Place

MakeWindow = Callable[..., Window]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A browser for the tests of a file: while it is open no other event loop can be run here."""
    if CHROMIUM is None:
        pytest.skip(MISSING)
    with chromium() as opened:
        yield opened


@pytest.fixture
def desk(place: Place) -> DeskProcess:
    return place.desk()


@pytest.fixture
def windows(browser: Browser, desk: DeskProcess) -> Iterator[MakeWindow]:
    opened: list[Window] = []

    def open_one(**looks: Any) -> Window:
        opened.append(Window(browser, desk.address, **looks))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


@pytest.fixture
def window(windows: MakeWindow) -> Window:
    return windows()
