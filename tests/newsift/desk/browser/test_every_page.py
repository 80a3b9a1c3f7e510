import json
import random
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.resources import files
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page

from newsift.cli.samples import SAMPLES, read_posts
from newsift.operations.seed_drafts import read_seed_files
from tests.broker.server import Server
from tests.newsift.desk.browser.browser_window import Window
from tests.newsift.desk.desk_topics import DeskProcess, Place
from tests.newsift.desk.match_records import HOUR, moment, record

HOURS = 12
PEOPLE = ("ann", "bela")
EVENT = "ferry-fire"
# What a stranger may call himself, his post, his event or his article.
NASTY = (
    "<script>alert(1)</script><img src=x onerror=alert(2)>",
    "\u202eright to left\u202c \u2066isolated \x1b[31mred\x1b[0m \x00\x07",
    "javascript:alert(3)",
    "Z" + "\u0301\u0316" * 400 + "algo",
    "w" * 4000,
    "'\"`${alert(4)}{{7*7}}%3Cscript%3E&lt;b&gt;",
)
FOE = f"{NASTY[0]}/../?#% \u202e"  # an event


def stocked(place: Place, hostile: bool = False) -> None:
    dice, now = random.Random(7), int(time.time() * 1000)
    drafts = read_seed_files([SAMPLES / "seeds"])
    place.send("seeds", *((draft.id, draft.record | {"event": draft.id}) for draft in drafts))
    about = [post for post in read_posts() if post.event]
    result = [
        _match(f"p{n}", post.event or "", post.text, now - dice.randrange(HOURS * HOUR), dice)
        for n, post in enumerate(dice.choices(about, k=400))
    ]
    place.send("matches", *((row["post"]["id"], row) for row in result))
    place.send("labels", *(_label(row, by, dice) for row in result[:30] for by in PEOPLE))
    place.send("rejected", *((f"bad{n}", b'{"id": "1"') for n in range(3)))
    if hostile:
        _attacked(place, now, dice)


def _match(name: str, event: str, text: str, at: int, dice: random.Random) -> dict[str, Any]:
    score = round(dice.uniform(0.25, 0.9), 4)
    why = [[word.lower(), 0.1] for word in text.split()[:3]]
    post = {
        "id": name, "platform": "mastodon", "text": text, "author": "@sample@social.example",
        "created_at": moment(at), "url": f"https://social.example/{name}", "lang": "en",
    }  # fmt: skip
    return record(name, score, at, event, group=f"{event}-{dice.randrange(99)}", post=post,
                  match={"seed_id": event, "title": event, "why": why})  # fmt: skip


def _label(row: dict[str, Any], by: str, dice: random.Random) -> tuple[str, dict[str, Any]]:
    event, post = row["matches"][0]["event"], row["post"]
    text = "on" if dice.random() < 0.8 else "off"
    key = f'["{event}","{post["platform"]}","{post["id"]}","{by}"]'
    return key, {
        "label": text, "event": event, "post": {k: post[k] for k in ("id", "platform", "text")},
        "score": row["matches"][0]["score"], "seed_set": "5" * 12, "model": "ab" * 32,
        "drawn": "given", "probability": None, "by": by, "at": moment(row["source"]["timestamp"]),
    }  # fmt: skip


def _attacked(place: Place, now: int, dice: random.Random) -> None:
    article = next(d for d in read_seed_files([SAMPLES / "seeds"]) if d.id == EVENT).record["text"]
    for n, foe in enumerate(NASTY):
        seed = {"title": foe, "text": f"{foe} {article}", "event": FOE, "url": foe}
        place.send("seeds", (f"foe-{n} {foe[:40]}", seed))
    place.send("seeds", (NASTY[0], b"{"), ("\u202e", {"text": 7}))
    for n, foe in enumerate(NASTY):
        row = _match(f"foe{n}", FOE if n % 2 else EVENT, foe, now - n, dice)
        row["post"] |= {"author": foe, "url": foe, "lang": foe[:30], "id": f"{n}{foe[:60]}"}
        row["matches"][0] |= {"title": foe, "why": [[foe[:50], 0.3], ["<b>", 0.2]]}
        place.send("matches", (None, row))
        place.send("labels", _label(row | {"by": foe}, foe[:60], dice))
    place.send("matches", (None, _match("large", FOE, "large " * 180_000, now, dice)))
    place.send("matches", (None, b"{"), (None, b"\xff"), (None, b"[" * 10_000))
    place.send("labels", (NASTY[0], b"{"), (None, {"label": NASTY[0]}))


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
