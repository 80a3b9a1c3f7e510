"""Seeds in a browser: an article on its way to the topic, changes by two people, and feeds."""

from typing import Any

import pytest
from playwright.sync_api import FilePayload, Locator, Page, expect

from tests.newsift.cli.events.ferry import ARTICLES, sample_posts
from tests.newsift.desk.browser.conftest import MakeWindow
from tests.newsift.desk.browser.window import Window
from tests.newsift.desk.place import Place

TITLE, TEXT = ARTICLES["fire"]
HOSTILE = "x</b><script>alert(1)</script>\u202e'\"/?#%"


def latest(place: Place) -> dict[str, Any]:
    """The latest value of each seed, by its title or text."""
    return {value["title"]: value for value in place.values("seeds") if value}


def add(place: Place, name: str, **more: Any) -> None:
    place.send("seeds", (name, {"text": TEXT, "title": TITLE} | more))


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("listitem").filter(has_text=title)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_a_text_is_looked_at_tried_published_and_stands_in_the_list(
    window: Window, place: Place
) -> None:
    place.send("posts", *((str(post["id"]), post) for post in sample_posts()))
    page = window.open("seeds")
    page.get_by_role("link", name="Add an article").click()
    page.get_by_label("Paste a text").fill(f"# {TITLE}\n\n{TEXT}")
    press(page, "Read the text")
    draft = page.get_by_role("article")
    expect(draft.get_by_label("Title")).to_have_value(TITLE)
    expect(draft.locator("mark").filter(has_text="Astrid")).to_be_visible(timeout=60_000)
    page.get_by_label("Event").fill("ferry")
    tried = page.get_by_role("region", name="What it would have matched")
    expect(tried).to_contain_text("of the last 24 hours would have matched", timeout=60_000)
    expect(tried.get_by_role("listitem")).to_have_count(5)
    expect(tried).to_contain_text("with three an event found twice as many")
    assert place.values("seeds") == []
    press(page, "Publish 1 seed")
    expect(page.get_by_text("it is on the topic")).to_be_visible()
    assert latest(place)[TITLE] == {"text": TEXT, "title": TITLE, "event": "ferry"}
    page.get_by_role("link", name="All seeds").last.click()
    expect(page.get_by_role("heading", name="ferry")).to_be_visible()
    expect(card(page, TITLE)).to_contain_text("live")


def test_files_are_read_and_what_is_no_article_is_not_published_by_mistake(
    window: Window, place: Place
) -> None:
    window.bears("400", "409")
    page = window.open("seeds/add")
    notice = b"<html><body><p>We use cookies. Accept all our cookies.</p></body></html>"
    files: list[FilePayload] = [
        {"name": "notice.html", "mimeType": "text/html", "buffer": notice},
        {"name": "fire.md", "mimeType": "", "buffer": f"# {TITLE}\n\n{TEXT}".encode()},
        {"name": "broken.json", "mimeType": "", "buffer": b"{"},
    ]
    page.get_by_label("Or files").set_input_files(files)
    expect(page.get_by_text("broken.json: is no JSON; mend it")).to_be_visible(timeout=30_000)
    expect(page.get_by_role("article")).to_have_count(2)
    expect(page.get_by_text("This looks like a cookie or consent notice.")).to_be_visible()
    publish = page.get_by_role("button", name="Publish 2 seeds")
    expect(publish).to_be_disabled()
    page.get_by_label("Publish all the same").check()
    expect(publish).to_be_enabled()
    page.get_by_label("Event").fill("ferry")  # one field for both
    expect(page.get_by_role("article").get_by_text("event ferry")).to_have_count(2)
    press(page, "Leave notice out")
    limit = page.get_by_role("article").get_by_label("Threshold")
    limit.fill("a third")
    expect(page.get_by_text("threshold: Expected")).to_be_visible()
    expect(page.get_by_role("button", name="Publish 1 seed")).to_be_disabled()
    limit.fill("0,25")
    press(page, "Publish 1 seed")
    expect(page.get_by_text("it is on the topic")).to_be_visible()
    found = {title: (seed["threshold"], seed["event"]) for title, seed in latest(place).items()}
    assert found == {TITLE: (0.25, "ferry")}


def test_a_file_that_is_dropped_anywhere_is_read(window: Window, place: Place) -> None:
    page = window.open("seeds")
    page.evaluate(
        """(text) => {
          const data = new DataTransfer();
          data.items.add(new File([text], "fire.md"));
          const sent = { dataTransfer: data, bubbles: true, cancelable: true };
          document.body.dispatchEvent(new DragEvent("drop", sent));
        }""",
        f"# {TITLE}\n\n{TEXT}",
    )
    expect(page.get_by_role("article").get_by_label("Title")).to_have_value(TITLE)
    assert place.values("seeds") == []


def test_a_seed_is_paused_set_removed_and_brought_back(window: Window, place: Place) -> None:
    window.bears("409")  # the page of what is removed may ask for it once more
    add(place, "fire")
    page = window.open("seeds")
    page.get_by_role("button", name="Pause fire").press("Enter")
    expect(page.get_by_role("button", name="Resume fire")).to_be_focused()
    expect(card(page, TITLE)).to_contain_text("paused")
    press(page, "Resume fire")
    expect(card(page, TITLE)).to_contain_text("live")
    page.get_by_role("link", name=TITLE).click()
    page.get_by_label("Threshold").fill("0.25")
    page.get_by_label("Ends").fill("7d")
    press(page, "Save")
    expect(page.get_by_text("0.25 (its own)")).to_be_visible()
    assert latest(place)[TITLE]["threshold"] == 0.25
    press(page, "Remove")
    press(page, "Remove it")
    expect(page.get_by_text("fire was removed by")).to_be_visible()
    assert place.values("seeds")[-1] is None
    press(page, "Undo")
    expect(card(page, TITLE)).to_contain_text("0.25 (its own)")
    assert latest(place)[TITLE]["threshold"] == 0.25


def test_the_second_of_two_people_is_told(windows: MakeWindow, place: Place) -> None:
    add(place, "fire")
    ada, ben = windows(), windows()
    ben.bears("409")
    pages = [each.open("seeds/seed/fire") for each in (ada, ben)]
    for page, name in zip(pages, ("hers", "his"), strict=True):
        page.get_by_label("Event").fill(name)
    pages[0].get_by_role("button", name="Save").click()
    expect(pages[0].locator(".facts")).to_contain_text("hers")
    expect(pages[1].get_by_text("Somebody has changed this seed since you began.")).to_be_visible()
    expect(pages[1].get_by_label("Event")).to_have_value("his")
    pages[1].get_by_role("button", name="Save").click()
    expect(pages[1].get_by_text("has been changed by somebody since you looked")).to_be_visible()
    assert latest(place)[TITLE]["event"] == "hers"
    press(pages[1], "Show it as it is now")
    expect(pages[1].get_by_label("Event")).to_have_value("hers")


@pytest.mark.parametrize("looks", [{}, {"viewport": {"width": 360, "height": 700}}])
def test_hostile_and_refused_seeds_are_shown_as_text(
    windows: MakeWindow, place: Place, looks: dict[str, Any]
) -> None:
    add(place, HOSTILE, title=HOSTILE + "W" * 900, event=HOSTILE, url="javascript:alert(1)")
    place.send("seeds", ("bare", {"title": "no text"}), ("odd", b"\xff\x00"))
    page = windows(**looks).open("seeds")
    refused = page.get_by_role("region", name="Refused")
    expect(refused.get_by_role("listitem")).to_have_count(2)
    expect(refused).to_contain_text("text: missing or empty; give the article's text")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("link", name=HOSTILE[:5]).last.click()
    expect(page.locator(".facts")).to_contain_text("javascript:alert(1)")
    assert page.locator("a[href^='javascript']").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_feed_of_the_own_network_is_refused_in_words(window: Window) -> None:
    window.bears("409")
    page = window.open("seeds/feeds")
    page.get_by_label("Address of the feed").fill("http://127.0.0.1:1/rss")
    press(page, "Show what it names")
    expect(page.get_by_text("which is no address of the open Internet")).to_be_visible()


def test_who_may_only_look_finds_nothing_to_press(
    windows: MakeWindow, place: Place, window: Window
) -> None:
    add(place, "fire")
    window.enter(place.desk("--read-only").address)
    page = window.open("seeds")
    expect(card(page, TITLE)).to_be_visible()
    assert page.get_by_role("main").get_by_role("button").count() == 0
    assert page.get_by_role("link", name="Add an article").count() == 0
    page.get_by_role("link", name=TITLE).click()
    expect(page.locator(".facts")).to_be_visible()
    assert page.get_by_role("main").get_by_role("button").count() == 0
