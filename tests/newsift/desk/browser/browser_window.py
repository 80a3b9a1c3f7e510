"""A browser's window on a desk, which remembers what a page of ours must never do."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    expect,
    sync_playwright,
)  # fmt: skip

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)
MISSING = "no chromium on the PATH: the desk's page is not looked at in a browser"
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]  # fmt: skip
PATIENCE_MS = 15_000.0  # for what a page has to show
expect.set_options(timeout=PATIENCE_MS)
SETTLED_MS = 60_000.0  # the model may have to be compiled first
# A breach of the page's security policy is an error of the console too; this tells which.
BREACHES = """addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.violatedDirective} ${event.blockedURI} ${event.sample}`));"""


@contextmanager
def chromium() -> Iterator[Browser]:
    proxies = {name for name in os.environ if name.lower().endswith("_proxy")}
    env: dict[str, Any] = {k: v for k, v in os.environ.items() if k not in proxies}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS, env=env)
        try:
            yield browser
        finally:
            browser.close()


class Window:
    def __init__(self, browser: Browser, url: str, **looks: Any) -> None:
        self.faults: list[str] = []
        self._borne: list[str] = []
        self.context: BrowserContext = browser.new_context(accept_downloads=True, **looks)
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(BREACHES)
        self.context.on("console", self._heard)
        self.context.on("weberror", lambda error: self.faults.append(f"error: {error.error}"))
        self.context.on("dialog", self._shown)
        self.context.on("request", lambda request: self._asked(request.url))
        self.page: Page = self.context.new_page()
        self.enter(url)

    def enter(self, address: str) -> None:
        self.url = address.partition("?")[0]
        if address != self.url:
            self.context.request.get(address)

    def bears(self, *words: str) -> None:
        """Let faults be that have these words: what the test does is to bring them about."""
        self._borne += words

    def open(self, where: str = "") -> Page:
        self.page.goto(f"{self.url}#/{where}")
        self.page.locator("h1").first.wait_for()
        return self.page

    def settled(self, where: str = "") -> Page:
        """Go to a place of the desk, and wait until it waits for nothing any more."""
        page = self.open(where)
        expect(page.locator(".waiting")).to_have_count(0, timeout=SETTLED_MS)
        return page

    def close(self) -> None:
        """Close it; what a page must never do, and did, fails the test."""
        self.context.close()
        left = [fault for fault in self.faults if not any(word in fault for word in self._borne)]
        assert left == [], "\n".join(left)

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _shown(self, dialog: Dialog) -> None:
        if dialog.type == "beforeunload":  # the browser's own: something is not saved yet
            dialog.accept()
            return
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _asked(self, url: str) -> None:
        if not url.startswith((self.url, "data:", f"blob:{self.url}")):
            self.faults.append(f"another host: {url}")
