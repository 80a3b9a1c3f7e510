import re
from contextlib import closing
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.broker.clients import create
from tests.broker.server import opened
from tests.newsift.desk.browser.browser_window import Window
from tests.newsift.desk.desk_topics import DeskProcess, Place
from tests.newsift.desk.match_records import record

TOKEN = "correct horse battery"
PAGES = {"": "Events", "seeds": "Seeds", "health": "Events", "constructor": "Events"}


@pytest.mark.parametrize("where", PAGES)
def test_every_page_opens_and_marks_its_entry(window: Window, where: str) -> None:
    page = window.open(where)
    marked = page.get_by_role("navigation").locator("[aria-current=page]")
    expect(marked).to_have_text(PAGES[where])
    expect(page).to_have_title(f"{PAGES[where]} – newsift")


FIGURES = """async () => {
  const { number, percent, rate, score } = await import("/lib/ui.js");
  const { backgroundWords, hourlyFigure, shareFigure } = await import("/pages/event/reading.js");
  const labels = { share: [0.9962, 1, 1], random_labels: 600 };
  return [
    percent(0.9999), percent(1), percent(0), percent(0.0002), percent(0.8),
    rate(1 / 24), rate(0), rate(2.34), score(-0.0002), score(-0.2), number(-0), number(-0.0001),
    shareFigure({ labelled_scores: [1], lowest_covered: 0.1 }, { labels, isReached: true }).known,
    backgroundWords({ background_posts: 300_000 }, { background: 0.004 }),
    backgroundWords({ background_posts: 20_000 }, { background: 0 }),
    ...[true, false].map((has_times) =>
      hourlyFigure({ has_times, thresholds: [0.2, 0.2] }, { hourly: null, score: 0.3 }).unknown),
    hourlyFigure({ thresholds: [0.2, 0.2] }, { hourly: null, least: 1.06, score: 0.3 }).known,
  ];
}"""


def test_no_figure_claims_more_than_is_known(window: Window) -> None:
    assert window.open().evaluate(FIGURES) == [
        "99.99 %", "100 %", "0 %", "0.02 %", "80 %", "0.04", "0.0", "2.3", "0.000", "-0.200",
        "0", "0", "100 % (99.6 % to 100 %), by 600 labels", "fewer than 0.01", "fewer than 0.05",
        "the time is too short", "the posts have no times",
        "at least 1.1 posts",
    ]  # fmt: skip


def test_an_answer_that_is_cut_off_is_reported_and_requested_again(window: Window) -> None:
    page = window.page
    page.route("**/api/session", lambda route: route.fulfill(body='{"answer": {"yo'))
    page.goto(window.url)
    expect(page.get_by_text("the desk does not answer")).to_be_visible()
    page.unroute("**/api/session")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Events")).to_be_visible()


def test_what_the_broker_did_not_answer_is_requested_again(window: Window, place: Place) -> None:
    window.bears("502")
    place.send("matches", (None, record("1", 0.5)))
    refusal = {"reason": "another request computes the same"}
    window.page.route("**/api/match?*", lambda route: route.fulfill(status=502, json=refusal))
    page = window.open("event/ferry")
    page.get_by_role("button", name="0.500").click()
    expect(page.get_by_text("computes the same")).to_be_visible()
    page.unroute("**/api/match?*")
    expect(page.locator("article").get_by_role("table")).to_contain_text("0.500")
    expect(page.get_by_text("computes the same")).to_have_count(0)


def test_the_keyboard_opens_a_page_and_a_name_survives_a_reload(window: Window) -> None:
    page = window.settled()
    page.keyboard.press("Tab")
    expect(page.get_by_text("Skip to the page")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page).to_have_url(f"{window.url}#/seeds")
    expect(page.get_by_role("main")).to_be_focused()
    page.get_by_label("You are").fill("Ann")
    page.get_by_label("You are").press("Enter")
    page.reload()
    expect(page.get_by_label("You are")).to_have_value("Ann")
    for _ in range(2):  # the second time the name in force stays as it is
        page.get_by_label("You are").fill("")
        page.get_by_label("You are").press("Enter")
        expect(page.get_by_label("You are")).not_to_have_value("")


FORBIDDEN = """Object.defineProperty(window, "localStorage", {
  get() { throw new DOMException("denied", "SecurityError"); } });"""
FULL = """Storage.prototype.setItem = () => {
  throw new DOMException("full", "QuotaExceededError"); };"""


@pytest.mark.parametrize("script", [FORBIDDEN, FULL], ids=["forbidden", "full"])
def test_a_name_is_kept_by_a_page_that_may_store_nothing(window: Window, script: str) -> None:
    window.page.add_init_script(script)
    page = window.open()
    expect(page.get_by_label("You are")).not_to_have_value("somebody")
    page.get_by_label("You are").fill("Ann")
    page.get_by_label("You are").press("Enter")
    page.get_by_role("link", name="Seeds").click()
    expect(page.get_by_role("heading", name="Seeds")).to_be_visible()
    expect(page.get_by_label("You are")).to_have_value("Ann")


def test_the_page_requests_the_token_and_what_was_typed_outlives_a_session(
    window: Window, place: Place
) -> None:
    window.bears("401")
    window.enter(place.desk(NEWSIFT_DESK__TOKEN=TOKEN).address)
    page = window.open("seeds/add")
    field = page.get_by_label("The desk's token")

    def log_in(token: str) -> None:
        field.fill(token)
        field.press("Enter")

    log_in(f"not {TOKEN}")
    expect(page.get_by_text("token: is not the desk's")).to_be_visible()
    log_in(TOKEN)
    page.get_by_label("Paste a text").fill("a fire in the harbour")
    window.context.clear_cookies()
    expect(field).to_be_visible()  # the page's next request is refused
    log_in(TOKEN)
    expect(field).to_have_count(0)
    expect(page.get_by_label("Paste a text")).to_have_value("a fire in the harbour")
    window.context.clear_cookies()
    page.goto(f"{window.url}#/")  # the page's first request is refused
    refusal = page.get_by_role("main").get_by_text("token: is missing").first
    expect(refusal).to_be_visible()
    log_in(TOKEN)
    expect(refusal).to_have_count(0)
    place.send("matches", (None, record("1", 0.5)))
    window.open("event/ferry")
    expect(page.locator("article")).to_have_count(1)
    page.route(re.compile("/api/(?!export)"), lambda _: None)  # no other request is refused
    window.context.clear_cookies()
    page.get_by_role("button", name="Save all with labels").click()
    expect(field).to_be_visible()


def test_a_missing_worker_is_reported_with_the_command(window: Window) -> None:
    for where in ("", "seeds"):
        strip = window.open(where).get_by_role("status", name="Health")
        expect(strip).to_contain_text("no worker runs")
        expect(strip.locator("code")).to_have_text("faust -A worker worker")


HEALS_MS = 60_000.0
ARTICLE = "A fire on the car deck of the ferry Astrid Vane forced passengers into lifeboats."


def test_the_page_recovers_from_a_restart_of_the_desk(
    window: Window, place: Place, desk: DeskProcess
) -> None:
    window.bears("ERR_", "401")
    page = window.open("seeds")
    port = desk.port
    desk.leave()
    expect(page.get_by_text("the desk does not answer").first).to_be_visible()
    place.send("seeds", ("one", {"text": ARTICLE, "title": "Fire on a ferry"}))
    again = place.desk(port=port)
    requests = page.get_by_label("The desk's token")
    requests.fill(again.address.partition("=")[2], timeout=HEALS_MS)
    requests.press("Enter")
    expect(page.get_by_text("the desk does not answer")).to_have_count(0, timeout=HEALS_MS)
    expect(page.get_by_text("Fire on a ferry").first).to_be_visible(timeout=HEALS_MS)


HIDE = """(isHidden) => {
  Object.defineProperty(document, "hidden", { value: isHidden, configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_tab_that_was_hidden_shows_the_desk_that_was_started_meanwhile(
    window: Window, place: Place
) -> None:
    desk = place.desk("--no-token")
    place.send("matches", (None, record("1", 0.5, text="a ferry burns")))
    window.enter(desk.address)
    page = window.open("event/ferry")
    expect(page.locator("article")).to_contain_text("a ferry burns")
    page.get_by_role("button", name="Pause").click()
    page.evaluate(HIDE, True)
    port = desk.port
    desk.leave()
    place.topics["others"] = f"{place.topics['matches']}-of-another"
    create(place.server.address, place.topics["others"], 1)
    place.send("others", (None, record("1", 0.5, text="a storm at sea")))
    again = place.desk(
        "--no-token", "--read-only", port=port, NEWSIFT_TOPICS__MATCHES=place.topics["others"]
    )
    assert again.port == port
    page.evaluate(HIDE, False)
    expect(page.locator("article")).to_contain_text("a storm at sea")
    expect(page.get_by_role("banner").get_by_text("read-only")).to_be_visible()


def test_a_desk_that_hangs_is_noticed(window: Window) -> None:
    page = window.page
    page.clock.install()
    page.route("**/api/changes", lambda _: None)
    window.open("seeds")
    page.clock.fast_forward("00:41")
    silence = page.get_by_role("alert").get_by_text("the desk does not answer")
    expect(silence).to_be_visible()
    page.unroute("**/api/changes")
    page.clock.fast_forward("00:41")
    expect(silence).to_have_count(0)


def test_a_request_that_is_never_answered_ends(window: Window) -> None:
    page = window.page
    page.add_init_script("""const own = AbortSignal.timeout.bind(AbortSignal);
      AbortSignal.timeout = () => own(2000);""")
    page.route("**/api/session", lambda _: None)
    page.goto(window.url)
    expect(page.get_by_text("the desk does not answer")).to_be_visible()
    page.unroute("**/api/session")
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("heading", name="Events")).to_be_visible()


def test_a_page_beyond_the_limit_is_not_updated_until_another_is_closed(window: Window) -> None:
    window.bears("503")
    page = window.page
    page.route("**/api/changes", lambda route: route.fulfill(status=503, body="{}"))
    page.goto(window.url)
    expect(page.get_by_role("alert")).to_have_text("not updated: too many pages are open")
    page.unroute("**/api/changes")
    expect(page.get_by_role("alert")).to_have_count(0, timeout=HEALS_MS)


def test_the_page_recovers_from_a_restart_of_the_broker(browser: Browser, tmp_path: Path) -> None:
    with (
        opened("embedded", tmp_path / "broker") as server,
        closing(Place(server, tmp_path)) as place,
        closing(Window(browser, place.desk().address)) as window,
    ):
        window.bears("409", "502")
        there = window.open().get_by_text("the broker answers")
        expect(there).to_be_visible(timeout=HEALS_MS)
        server.stop()
        expect(there).to_have_count(0, timeout=HEALS_MS)
        server.start()
        expect(there).to_be_visible(timeout=HEALS_MS)
        place.send("seeds", ("one", {"text": ARTICLE, "title": "Fire on a ferry"}))
        shown = window.open("seeds").get_by_text("Fire on a ferry").first
        expect(shown).to_be_visible(timeout=HEALS_MS)
