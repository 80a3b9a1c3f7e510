"""The article of a web page, taken out by a process of its own, which can be ended.

What reads a page is C code and patterns that a hostile page keeps busy for minutes, during which
no other thread and no signal of the same process is heard.
"""

import json
import logging
import re
import resource
import signal
import subprocess
import sys
from dataclasses import asdict
from urllib.parse import urlsplit

from encoder.errors import InputError
from worker.files.articles.article import Article
from worker.files.articles.doubts import FEWEST, doubt_of, without_notices, words_in
from worker.files.articles.page import Page, decoded
from worker.visible import one_line

SECONDS = 20.0
MEMORY = 2**30  # bytes; an ordinary page takes a fifth
REFUSED = 2
LONGEST_TITLE = 300  # characters
BESIDE = 2**20  # of a page that are looked at for a wall
SAVED_FROM = re.compile(
    r"<!--\s*saved from url=\(\d{1,6}\)(https?://[^\s>]{1,2000})", re.IGNORECASE
)
# A page that was saved with its pictures inside holds megabytes of them.
PICTURE = re.compile(rb"data:[\w/+.-]{0,80};base64,[A-Za-z0-9+/=\s%]++")

# Programs may speak of walls that nobody stands before; what describes the page says if one does.
SCRIPT = re.compile(
    r"<(script|style)\b(?![^>]{0,200}ld\+json).*?(?:</\1|\Z)", re.IGNORECASE | re.DOTALL
)


def article_of(page: Page, seconds: float = SECONDS) -> Article:
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
    return Article(**json.loads(done.stdout))


def answer() -> None:
    """Read a page on standard input, write its article to standard output."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    head, _, body = sys.stdin.buffer.read().partition(b"\n")
    url, charset, seconds, memory = json.loads(head)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    # Should whoever waits for us be gone, nobody else would end us.
    resource.setrlimit(resource.RLIMIT_CPU, (int(seconds) + 1, int(seconds) + 1))
    try:
        sys.stdout.write(json.dumps(asdict(extracted(Page(url, body, charset)))))
    except InputError as error:
        sys.stdout.buffer.write(str(error).encode("utf-8", "backslashreplace"))
        sys.exit(REFUSED)


def extracted(page: Page) -> Article:
    """The article of a page; what looks like none says so."""
    if kind := page.other_kind:
        raise _refusal(page.url, f"is {kind}")
    text = decoded(Page(page.url, PICTURE.sub(b"data:,", page.body), page.charset))
    if "<" not in text:
        return Article("", text.strip(), _address(page.url), doubt_of("", text))
    tries = [_taken(text, page.url, False)]
    if tries[0].doubt:
        tries.append(_taken(text, page.url, True))
    found = next((each for each in tries if not each.doubt), tries[0])
    if not found.text:
        raise _refusal(page.url, "holds no text that can be read")
    return found


def _taken(markup: str, url: str, everywhere: bool) -> Article:
    """What is taken from a page: as a rule, or from its tables and its margins too."""
    import trafilatura

    logging.getLogger("trafilatura").addHandler(logging.NullHandler())
    logging.getLogger("trafilatura").propagate = False
    address = _address(url)
    found = trafilatura.bare_extraction(
        markup, url=address, with_metadata=True, include_comments=False,
        include_tables=everywhere, favor_recall=everywhere,
    )  # fmt: skip
    title = one_line((found.title if found else None) or "")[:LONGEST_TITLE]
    whole = ((found.text if found else None) or "").strip()
    whole = _without_lines(whole) if everywhere else whole
    bare = without_notices(whole)
    text = bare if words_in(bare) >= FEWEST else whole
    saved = SAVED_FROM.search(markup[:4096])
    place = address or (saved and saved[1]) or _address(found.url if found else None)
    beside = SCRIPT.sub(" ", markup[:BESIDE])
    return Article(title, text, place or None, doubt_of(title, text, beside))


def _without_lines(text: str) -> str:
    """The text of tables as lines of their own, without what is drawn around it."""
    cells = (cell.strip() for cell in text.replace("|", "\n").split("\n"))
    return "\n".join(cell for cell in cells if cell.strip("- "))


def _address(url: str | None) -> str | None:
    """An address of the web, and nothing else that a page may name as its own."""
    try:
        return url if url and urlsplit(url).scheme in ("http", "https") else None
    except ValueError:
        return None


def _refusal(url: str, why: str) -> InputError:
    return InputError(f"{url}: {why}; save the text and add the file")
