"""What an event would learn is seen, published, and taken back, in a browser."""

from playwright.sync_api import expect

from tests.newsift.desk.browser.test_scores import SLOW_MS, at_work, opened, until_set, worker_seeds
from tests.newsift.desk.browser.window import Window
from tests.newsift.desk.place import Place


def test_a_lesson_is_published_and_taken_back_and_the_worker_follows(
    place: Place, window: Window
) -> None:
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
