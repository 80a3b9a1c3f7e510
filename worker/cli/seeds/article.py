"""The article of a web page, taken out by a process of its own, which can be ended.

What reads a page is C code and patterns that a hostile page keeps busy for minutes, during which
no other thread and no signal of the same process is heard.
"""

import codecs
import json
import logging
import re
import resource
import signal
import subprocess
import sys
from typing import Any

from encoder.errors import InputError
from worker.cli.seeds.fetch import SECONDS, Page
from worker.visible import one_line

SHORTEST = 200  # characters; less is a menu or a notice, not an article
MEMORY = 2**30  # bytes; an ordinary page takes a fifth
REFUSED = 2
META_CHARSET = re.compile(
    rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE
)


def article_of(page: Page, seconds: float = SECONDS) -> dict[str, Any]:
    """The article of a page, within bounds of time and memory, whatever the page holds."""
    # The same modules as here, and none from the folder where somebody happens to be.
    start = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import answer; answer()"
    head = json.dumps([page.url, page.charset, seconds, MEMORY]).encode()
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", start], input=head + b"\n" + page.body,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise _refusal(page.url, f"takes longer than {seconds:g} s to read") from None
    if done.returncode == REFUSED:
        raise InputError(done.stdout.decode())
    if done.returncode:
        raise _refusal(page.url, "costs too much to read")
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def answer() -> None:
    """Read a page on standard input, write its article to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    head, _, body = sys.stdin.buffer.read().partition(b"\n")
    url, charset, seconds, memory = json.loads(head)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # Should whoever waits for us be gone, nobody else would end us.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    try:
        sys.stdout.write(json.dumps(extracted(Page(url, body, charset))))
    except InputError as error:
        sys.stdout.buffer.write(str(error).encode("utf-8", "backslashreplace"))
        sys.exit(REFUSED)


def extracted(page: Page) -> dict[str, Any]:
    """The article of a page: its title, its text, its address."""
    import trafilatura

    logging.getLogger("trafilatura").addHandler(logging.NullHandler())
    logging.getLogger("trafilatura").propagate = False
    found = trafilatura.bare_extraction(
        decoded(page), url=page.url, with_metadata=True, include_comments=False,
        include_tables=False,
    )  # fmt: skip
    text = (found.text or "").strip() if found else ""
    if len(text) < SHORTEST:
        raise _refusal(page.url, "holds no article that can be read")
    return {"text": text, "title": one_line(found.title or ""), "url": page.url}


def decoded(page: Page) -> str:
    """The page as text, by its byte order mark, its header, its head, or as UTF-8."""
    if page.body.startswith(codecs.BOM_UTF8):
        return page.body[3:].decode("utf-8", "replace")
    if page.body.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return page.body.decode("utf-16", "replace")
    named = META_CHARSET.search(page.body[:4096])
    for charset in (page.charset, named[1].decode() if named else None, "utf-8"):
        try:
            return page.body.decode(charset or "unnamed")
        except (LookupError, UnicodeError):
            continue
    return page.body.decode("cp1252", "replace")


def _refusal(url: str, why: str) -> InputError:
    return InputError(f"{url}: {why}; save the text and add the file")
