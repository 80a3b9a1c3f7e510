import csv
import io
import json
import re
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from playwright.sync_api import Locator, Page, expect

from tests.broker.clients import until
from tests.newsift.cli.events.ferry_event import ARTICLES, sample_posts
from tests.newsift.desk.browser.browser_window import SETTLED_MS, Window
from tests.newsift.desk.desk_topics import Place

TITLE, TEXT = ARTICLES["fire"]
JUDGED = 10


def add_an_article(page: Page) -> None:
    page.get_by_role("link", name="Add the first seed").click()
    page.get_by_role("link", name="Add an article").click()
    page.get_by_label("Paste a text").fill(f"# {TITLE}\n\n{TEXT}")
    page.get_by_role("button", name="Read the text").click()
    page.get_by_label("Event").fill("ferry")
    page.get_by_role("button", name="Publish 1 seed").click()
    expect(page.get_by_text("it is on the topic")).to_be_visible()


def wait_for_all_matches(page: Page, place: Place) -> None:
    """A queue asks about what came before it was drawn."""
    until(lambda: json.loads(place.newsift("status", "--json"))["lag"] == 0, SETTLED_MS / 1000)
    stories = {record["group"] for record in place.values("matches")}
    expect(page.locator("article.match")).to_have_count(len(stories))


def judge(page: Page, place: Place) -> None:
    page.get_by_role("link", name="Judge").click()
    post = page.locator(".post .words")
    for number in range(1, JUDGED + 1):
        text = post.inner_text()
        page.keyboard.press("y")
        expect(post).not_to_have_text(text)
        expect(page.get_by_text(f"{number} label{'s' * (number > 1)} of yours")).to_be_visible()
    counts = json.loads(place.newsift("labels", "list", "--json").splitlines()[0])
    assert (counts["on"], counts["certify"]) == (JUDGED, JUDGED)


def save_csv(page: Page) -> list[dict[str, str]]:
    page.get_by_role("link", name="Matches", exact=True).click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save all with labels").click()
    text = Path(download.value.path()).read_text("utf-8-sig")
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_an_event_from_its_first_article_to_a_file_and_through_the_loss_of_a_worker(
    window: Window, place: Place
) -> None:
    worker = place.worker()
    without_seeds = worker_seeds(place)["seed_set"]
    page = window.open()
    add_an_article(page)
    until_set(place, None, without_seeds)
    state = page.get_by_role("status", name="Health")
    expect(state.filter(has_text="all well")).to_be_visible(timeout=SETTLED_MS)
    posts = sample_posts()
    place.send("posts", *((str(post["id"]), post) for post in posts))
    page = window.open("event/ferry")
    expect(page.locator("article.match").first).to_contain_text("came", timeout=SETTLED_MS)
    wait_for_all_matches(page, place)
    judge(page, place)
    rows = save_csv(page)
    assert {row["post_id"] for row in rows} == {
        row["post"]["id"] for row in place.values("matches")
    }
    assert sum(row["label"] == "on" for row in rows) >= JUDGED
    texts = {row["text"].removeprefix("'") for row in rows}  # no cell is a formula
    assert texts <= {str(post["text"]) for post in posts}
    worker.kill()
    expect(state.filter(has_text="no worker runs")).to_be_visible(timeout=SETTLED_MS)
    place.worker()
    expect(state.filter(has_text="all well")).to_be_visible(timeout=SETTLED_MS)


DEADLINE_S = 60.0
SLOW_MS = 60_000.0  # for what waits for the model or for a worker


def at_work(place: Place) -> None:
    seeds = [(name, {"title": title, "text": text, "event": "ferry"})
             for name, (title, text) in ARTICLES.items()]  # fmt: skip
    place.send("seeds", *seeds)
    place.worker()
    many = [dict(post, id=f"{post['id']}-{n}") for n in range(2) for post in sample_posts()]
    place.send("posts", *((post["id"], post) for post in many))


def worker_seeds(place: Place) -> Any:
    with urlopen(f"http://127.0.0.1:{place.web_port}/seeds") as answer:
        return json.load(answer)


def until_set(place: Place, cut: float | None, before: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while True:
        result = worker_seeds(place)
        cuts = {round(row["threshold"], 6) for row in result["live"]}
        if result["seed_set"] != before and (cut is None or cuts == {cut}):
            return
        assert time.monotonic() < end, result
        time.sleep(0.05)


def opened(window: Window, tab: str) -> Page:
    page = window.open(f"event/ferry/{tab}")
    expect(page.get_by_text("still being loaded")).to_have_count(0, timeout=SLOW_MS)
    return page


def value(handle: Locator) -> float:
    return float(handle.get_attribute("aria-valuenow") or "nan")


def test_a_threshold_is_dragged_and_set(place: Place, window: Window) -> None:
    at_work(place)
    page = opened(window, "scores")
    handle = page.get_by_role("slider", name="Threshold")
    matches = page.get_by_text("matches of the last")
    expect(matches).to_have_text(re.compile("^[1-9]"), timeout=SLOW_MS)
    begun = value(handle)
    handle.focus()
    page.keyboard.press("ArrowRight")
    expect(handle).to_have_attribute("aria-valuenow", f"{begun + 0.005:.3f}")
    page.keyboard.press("PageUp")
    page.keyboard.press("ArrowLeft")
    expect(handle).to_have_attribute("aria-valuenow", f"{begun + 0.05:.3f}")
    box = page.locator(".figure svg").bounding_box()
    assert box
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 100)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.7, box["y"] + 140, steps=5)
    page.mouse.up()
    assert value(handle) > begun + 0.05
    expect(page.get_by_text("fewer than now")).to_be_visible()
    page.get_by_label("Threshold", exact=True).last.fill("0.312")
    page.keyboard.press("Tab")
    expect(handle).to_have_attribute("aria-valuenow", "0.312")
    before = worker_seeds(place)["seed_set"]
    page.get_by_role("button", name="Set this threshold").click()
    expect(page.get_by_role("dialog")).to_contain_text("it becomes 0.312")
    page.get_by_role("button", name="Set it").click()
    until_set(place, 0.312, before)
    expect(page.get_by_text("The threshold is 0.312, set.")).to_be_visible()
    before = worker_seeds(place)["seed_set"]
    page.get_by_role("button", name="Automatic again").click()
    page.get_by_role("button", name="Make it automatic").click()
    until_set(place, None, before)
    expect(page.get_by_text("automatic.")).to_be_visible()


def test_a_profile_is_published_and_taken_back(place: Place, window: Window) -> None:
    at_work(place)
    page = opened(window, "learned")
    expect(page.get_by_role("heading", name="Nothing learned yet")).to_be_visible(timeout=SLOW_MS)
    page.get_by_label("the last hour").check()
    page.get_by_role("button", name="See what it would learn").click()
    expect(page.get_by_role("heading", name="Words that gained")).to_be_visible(timeout=SLOW_MS)
    before = worker_seeds(place)["seed_set"]
    page.get_by_role("button", name="Publish this profile").click()
    page.get_by_role("button", name="Publish", exact=True).click()
    until_set(place, None, before)
    assert [row["id"] for row in worker_seeds(place)["live"]] == ["profile|ferry"]
    expect(page.get_by_role("heading", name="What it has learned")).to_be_visible()
    before = worker_seeds(place)["seed_set"]
    page.get_by_role("button", name="Go back to no profile").click()
    page.get_by_role("button", name="Go back", exact=True).click()
    expect(page.get_by_role("heading", name="Nothing learned yet")).to_be_visible()
    until_set(place, None, before)
    assert [row["id"] for row in worker_seeds(place)["live"]] == ["fire", "rescue"]
