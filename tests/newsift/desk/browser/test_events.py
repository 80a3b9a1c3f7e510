import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

from playwright.sync_api import FilePayload, Locator, Page, Route, expect

from tests.newsift.cli.events.ferry_event import ARTICLES
from tests.newsift.desk.browser.browser_window import SETTLED_MS, Window
from tests.newsift.desk.browser.conftest import MakeWindow
from tests.newsift.desk.desk_topics import Place
from tests.newsift.desk.match_records import HOSTILE, record


def test_matches_are_listed_filtered_and_held(window: Window, place: Place) -> None:
    page = window.open()
    expect(page.get_by_role("link", name="Add the first seed")).to_be_visible()
    first = record("1", 0.5, event=HOSTILE, text=HOSTILE, group="g")
    copy = record("2", 0.6, event=HOSTILE, text="the ferry again", group="g")
    other = record("3", 0.9, event=HOSTILE, text="a fire", group="h")
    place.send("matches", *((None, each) for each in (first, copy, other)))
    page.get_by_role("main").get_by_role("link", name="<script>").click()
    cards = page.locator("article")
    expect(cards).to_have_count(2)
    page.get_by_role("button", name="1 more that says the same").click()
    expect(page.get_by_text("the ferry again")).to_be_visible()
    page.get_by_role("searchbox", name="Words or author").fill("FIRE")
    expect(cards).to_have_count(1)
    page.reload()
    expect(cards).to_have_count(1)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="All", exact=True).click()
    expect(cards).to_have_count(2)
    page.get_by_role("button", name="Pause").click()
    place.send("matches", (None, record("4", 0.7, event=HOSTILE, group="i")))
    fresh = page.get_by_role("button", name="1 new")
    expect(fresh).to_be_visible()
    expect(cards).to_have_count(2)
    fresh.click()
    expect(page.get_by_role("main")).to_be_focused()
    expect(cards).to_have_count(3)
    page.keyboard.press("j")
    expect(cards.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(cards.first.get_by_role("table")).to_contain_text("0.700")
    page.keyboard.press("y")
    expect(cards.first.get_by_text("on: ")).to_be_visible()
    seed = {"text": "a fire in the harbour", "event": HOSTILE, "threshold": 0.6}
    place.send("seeds", ("fire", seed))
    expect(page.get_by_text("below the threshold now")).to_have_count(1)


def test_twelve_matches_are_on_a_screen_and_four_on_a_phone(
    windows: MakeWindow, place: Place
) -> None:
    text = "Lifeboats of the burning ferry Astrid Vane reach Port Maren, " * 3
    rows = (record(f"{n}", 0.5, text=text, group=f"g{n}") for n in range(15))
    place.send("matches", *((None, each) for each in rows))
    # Above the list, while all is well, are 260 and 360 pixels.
    for width, height, least in ((1280, 800 - 260, 12), (390, 844 - 360, 4)):
        page = windows(viewport={"width": width, "height": 900}).open("event/ferry")
        cards = page.locator("article")
        expect(cards).to_have_count(15)
        tops = cards.evaluate_all("all => all.map((each) => each.getBoundingClientRect().top)")
        assert (tops[-1] - tops[0]) / 14 * least <= height


def test_cards_and_links_are_shown_and_lead_only_to_pages_of_the_web(
    window: Window, place: Place
) -> None:
    page = window.open()
    linking = record("1", 0.1, text="look", group="g", match={"link": True})
    linking["post"] |= {
        "alt": [f"a ferry {HOSTILE}"],
        "card": {"url": "https://bücher.example/f", "title": "The ferry burns", "description": ""},
        "links": [
            "javascript:alert(1)", "https://user:word@evil.example/a", "https://news.example/b?c=d",
        ],
    }  # fmt: skip
    place.send("matches", (None, linking), (None, record("2", 0.9, text="other", group="h")))
    page.goto(f"{window.url}#/event/ferry")
    card = page.locator("article", has_text="look")
    expect(card.get_by_text("links to the story")).to_be_visible()
    expect(card.locator(".picture")).to_contain_text("a ferry")
    expect(card.locator(".picture")).to_contain_text("⟨U+202E⟩")
    expect(card.locator(".preview")).to_contain_text("The ferry burns")
    expect(card.locator("a[target]")).to_have_text(
        ["xn--bcher-kva.example/f", "news.example/b?c=d"]
    )
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("With a link to the story").check()
    expect(page.locator("article")).to_have_count(1)


def test_a_page_beyond_the_end_goes_back_to_the_last_one(window: Window, place: Place) -> None:
    place.send("matches", (None, record("1", 0.5)))

    def shrink(name: str) -> Callable[[Route], None]:
        def answer(route: Route) -> None:
            response = route.fetch()
            content = response.json()
            is_beyond = "skip=50" in route.request.url
            content["answer"] |= {"total": 40, name: []} if is_beyond else {"total": 60}
            route.fulfill(response=response, json=content)

        return answer

    page = window.page
    page.route("**/api/events?*", shrink("events"))
    page.route("**/api/matches?*", shrink("stories"))
    for where, later, earlier in (("", "After", "Before"), ("event/ferry", "Older", "Newer")):
        window.open(where)
        with page.expect_response("**skip=50**"):
            press(page, later)
        expect(page.get_by_role("button", name=earlier)).to_be_disabled()
        expect(page.get_by_text("ferry").first).to_be_visible()
        expect(page.get_by_role("main")).not_to_contain_text(re.compile("No event|has matched"))


def test_o_opens_the_post_itself_or_nothing(window: Window, place: Place) -> None:
    card = {"url": "https://stranger.example/f", "title": "The ferry burns", "description": ""}
    for name, more in (("1", {}), ("2", {"url": "https://social.example/2"})):
        row = record(name, 0.5, group=name)
        row["post"] |= {"card": card} | more
        place.send("matches", (None, row))
    page = window.open("event/ferry")
    cards = page.locator("article")
    expect(cards).to_have_count(2)
    page.evaluate("""() => addEventListener("click", (event) => {
      event.preventDefault();
      (window.opened ??= []).push(event.target.closest("a").href);
    })""")
    for each in cards.all():
        each.focus()
        page.keyboard.press("o")
    assert page.evaluate("window.opened") == ["https://social.example/2"]


def test_the_last_of_two_labels_counts(window: Window, place: Place) -> None:
    place.send("matches", (None, record("1", 0.5)))
    slow: list[Route] = []

    def delay(route: Route) -> None:
        if slow:
            route.continue_()
        else:
            slow.append(route)

    window.page.route("**/api/judge/label", delay)
    page = window.open("event/ferry")
    page.locator("article").focus()
    with page.expect_request("**/api/judge/label"):
        page.keyboard.press("y")
    page.keyboard.press("n")
    page.wait_for_timeout(200)
    slow[0].continue_()
    expect(page.get_by_text("labelled: on")).to_be_visible()
    expect(page.get_by_text("labelled: off")).to_be_visible()
    assert place.values("labels")[-1]["label"] == "off"
    page.keyboard.press("Y")  # with Caps Lock
    expect(page.get_by_text("on: ")).to_be_visible()


def test_a_label_of_a_match_outlives_a_session_and_a_look_at_another_page(
    window: Window, place: Place
) -> None:
    window.bears("401")
    desk = place.desk()
    window.enter(desk.address)
    place.send("matches", (None, record("1", 0.5)))
    page = window.open("event/ferry")
    page.locator("article").focus()
    window.context.clear_cookies()
    page.keyboard.press("y")
    token = page.get_by_label("The desk's token")
    expect(token).to_be_visible()
    page.goto(f"{window.url}#/seeds")
    token.fill(desk.address.partition("=")[2])
    token.press("Enter")
    expect(page.get_by_text("labelled: on")).to_be_visible()
    assert place.values("labels")[-1]["label"] == "on"


def test_matches_are_filtered_by_three_digits(window: Window, place: Place) -> None:
    place.send("matches", *((None, record(str(n), 0.5 + n / 1000, group=str(n))) for n in range(3)))
    page = window.open("event/ferry")
    expect(page.locator("article")).to_have_count(3)
    page.get_by_text("Filters", exact=True).click()
    page.get_by_label("Score from").fill("0.501")
    expect(page.locator("article")).to_have_count(2)
    expect(page.get_by_label("Score from")).to_be_focused()
    page.get_by_role("link", name="Matches").click()  # its address has no filter
    expect(page.locator("article")).to_have_count(3)
    page.goto(f"{window.url}#/event/ferry/matches/{quote('least=0.502')}")
    expect(page.locator("article")).to_have_count(1)
    expect(page.get_by_label("Score from")).to_have_value("0.502")


def test_a_time_range_is_in_the_address(windows: MakeWindow, place: Place) -> None:
    at = datetime(2026, 3, 1, 10, tzinfo=UTC)
    ages = {"1": timedelta(hours=3), "2": timedelta(hours=1), "3": timedelta(0)}
    for name, age in ages.items():
        ms = int((at - age).timestamp() * 1000)
        place.send("matches", (None, record(name, 0.5, ms, group=name)))
    page = windows(timezone_id="Europe/Berlin").open("event/ferry")
    cards = page.locator("article")
    expect(cards).to_have_count(3)
    page.get_by_label("Time").select_option("from … until")
    page.get_by_label("from", exact=True).fill("2026-03-01T09:00")
    expect(cards).to_have_count(2)
    page.get_by_label("until", exact=True).fill("2026-03-01T11:00")
    expect(cards).to_have_count(1)
    assert quote(quote("from=2026-03-01T08:00Z", safe="="), safe="") in page.url
    page.reload()
    expect(page.get_by_label("until", exact=True)).to_have_value("2026-03-01T11:00")
    expect(cards).to_have_count(1)
    page.get_by_label("Time").select_option("last hour")
    expect(page.get_by_text("No match passes these filters")).to_be_visible()


def test_a_text_from_right_to_left_is_shown_so(window: Window, place: Place) -> None:
    add(place, "ferry", text="عبارة كبيرة (Astrid Vane) تحترق.")
    page = window.open("seeds/seed/ferry")
    text = page.locator("section.card .quoted").last
    first, dot = text.evaluate("""(element) => [0, element.textContent.length - 1].map((at) => {
      const range = document.createRange();
      const nodes = [...element.childNodes].filter((node) => node.textContent);
      const node = at ? nodes.at(-1) : nodes[0];
      const leaf = node.firstChild ?? node;
      range.setStart(leaf, at ? leaf.length - 1 : 0);
      range.setEnd(leaf, at ? leaf.length : 1);
      return range.getBoundingClientRect().left;
    })""")
    assert dot < first


TITLE, TEXT = ARTICLES["fire"]


def latest(place: Place) -> dict[str, Any]:
    return {value["title"]: value for value in place.values("seeds") if value}


def add(place: Place, name: str, **more: Any) -> None:
    place.send("seeds", (name, {"text": TEXT, "title": TITLE} | more))


def open_seed(window: Window, name: str) -> Page:
    """The page of a seed that was added, once the desk has read it."""
    window.open("seeds").get_by_text(TITLE).first.wait_for()
    return window.open(f"seeds/seed/{name}")


def card(page: Page, title: str) -> Locator:
    return page.get_by_role("listitem").filter(has_text=title)


def press(page: Page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()


def test_files_are_read_and_a_doubtful_article_needs_consent(window: Window, place: Place) -> None:
    window.bears("400", "409")
    page = window.open("seeds/add")
    notice = b"<html><body><p>We use cookies. Accept all our cookies.</p></body></html>"
    files: list[FilePayload] = [
        {"name": "notice.html", "mimeType": "text/html", "buffer": notice},
        {"name": "fire.md", "mimeType": "", "buffer": f"# {TITLE}\n\n{TEXT}".encode()},
        {"name": "broken.json", "mimeType": "", "buffer": b"{"},
    ]
    page.get_by_label("Or files").set_input_files(files)
    expect(page.get_by_text("broken.json: is not JSON; fix it")).to_be_visible(timeout=30_000)
    publish = page.get_by_role("button", name="Publish 2 seeds")
    expect(publish).to_be_disabled()
    page.get_by_role("link", name="All seeds").click()
    page.get_by_role("link", name="Add an article").first.click()
    expect(page.get_by_role("button", name="Publish 2 seeds")).to_be_visible()
    page.get_by_label("Publish all the same").check()
    expect(publish).to_be_enabled()
    page.get_by_label("Event").fill("ferry")  # one field for both
    press(page, "Leave notice out")
    page.get_by_role("article").get_by_label("Threshold").fill("0,25")
    press(page, "Publish 1 seed")
    expect(page.get_by_text("it is on the topic")).to_be_visible()
    result = {title: (seed["threshold"], seed["event"]) for title, seed in latest(place).items()}
    assert result == {TITLE: (0.25, "ferry")}


def test_an_article_is_read_and_published_while_another_page_is_shown(
    window: Window, place: Place
) -> None:
    held: list[Route] = []
    for path in ("read", "publish"):
        window.page.route(f"**/api/seeds/{path}", lambda route: held.append(route))
    page = window.open("seeds/add")
    page.get_by_label("Paste a text").fill(f"# {TITLE}\n\n{TEXT}")
    with page.expect_request("**/api/seeds/read"):
        press(page, "Read the text")
    window.open("seeds")
    with page.expect_response("**/api/seeds/read"):
        held.pop().continue_()
    window.open("seeds/add")
    publish = page.get_by_role("button", name="Publish 1 seed")
    expect(publish).to_be_enabled(timeout=SETTLED_MS)
    with page.expect_request("**/api/seeds/publish"):
        publish.click()
    window.open("seeds")
    held.pop().continue_()
    expect(page.get_by_text("1 seed published")).to_be_visible()
    window.open("seeds/add")
    expect(page.get_by_label("Paste a text")).to_be_visible()


def test_a_seed_is_paused_changed_removed_and_restored(window: Window, place: Place) -> None:
    window.bears("409")  # the page of what is removed may ask for it once more
    add(place, "fire")
    page = window.open("seeds")
    page.get_by_role("button", name="Pause fire").press("Enter")
    expect(page.get_by_role("button", name="Resume fire")).to_be_focused()
    expect(card(page, TITLE)).to_contain_text("paused")
    page.get_by_role("link", name=TITLE).click()
    page.get_by_label("Threshold").fill("0.25")
    press(page, "Save")
    expect(page.get_by_text("0.25 (its own)")).to_be_visible()
    press(page, "Remove")
    press(page, "Remove it")
    expect(page.get_by_text("fire was removed by")).to_be_visible()
    assert place.values("seeds")[-1] is None
    press(page, "Undo")
    expect(card(page, TITLE)).to_contain_text("0.25 (its own)")
    assert latest(place)[TITLE]["threshold"] == 0.25


def test_the_second_of_two_changes_is_refused(windows: MakeWindow, place: Place) -> None:
    add(place, "fire")
    ada, ben = windows(), windows()
    ben.bears("409")
    expect(ada.open("seeds").get_by_role("link", name=TITLE)).to_be_visible()  # the desk has it
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


def test_a_threshold_that_is_no_score_is_refused(window: Window, place: Place) -> None:
    add(place, "fire")
    page = open_seed(window, "fire")
    page.get_by_label("Threshold").fill("Infinity")
    press(page, "Save")
    expect(page.get_by_text("threshold: give a score above 0")).to_be_visible()


def test_one_and_none_are_counted_in_words(window: Window, place: Place) -> None:
    window.bears("409")  # the draft without a text
    near = {"id": "1", "platform": "plain", "text": "rain", "score": 0.2, "why": [], "label": None}
    answer = {"count": 1, "messages": [], "near": [near]}
    window.page.route("**/api/scores/near?*", lambda route: route.fulfill(json={"answer": answer}))
    place.send("matches", (None, record("1", 0.5)))
    page = window.open("event/ferry/scores")
    expect(page.get_by_text("1 post came near")).to_be_visible()
    page = window.open("seeds/add")
    page.get_by_label("Paste a text").fill("A ferry burns")
    press(page, "Read the text")
    expect(page.get_by_text("3 words")).to_be_visible()
    page.get_by_text("Change the text").click()
    page.get_by_role("textbox", name="Text").fill("")
    expect(page.get_by_text("· 0 words ·")).to_be_visible()


def test_a_draft_that_is_edited_while_the_model_is_loaded_is_checked(window: Window) -> None:
    checks: list[Route] = []

    def answer(route: Route) -> None:
        checks.append(route)
        if len(checks) != 2:  # the second one is slow
            response = route.fetch()
            content = response.json()
            content["answer"][0]["loading"] = len(checks) == 1
            route.fulfill(response=response, json=content)

    window.page.route("**/api/seeds/check", answer)
    page = window.open("seeds/add")
    page.get_by_label("Paste a text").fill(f"# {TITLE}\n\n{TEXT}")
    press(page, "Read the text")
    publish = page.get_by_role("button", name="Publish 1 seed")
    expect(publish).to_be_enabled()
    with page.expect_request("**/api/seeds/check"):
        page.get_by_label("Event").fill("ferry")
    with page.expect_request("**/api/seeds/check"):  # again, as the model was being loaded
        expect(publish).to_be_disabled()
    checks[1].continue_()
    expect(publish).to_be_enabled()


def test_a_pause_of_ones_own_keeps_what_is_typed(window: Window, place: Place) -> None:
    add(place, "fire")
    page = open_seed(window, "fire")
    page.get_by_label("Title").fill("Another title")
    press(page, "Pause")
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    expect(page.get_by_text("Somebody has changed this seed")).to_have_count(0)
    expect(page.get_by_label("Title")).to_have_value("Another title")
    press(page, "Save")
    expect(page.get_by_role("heading", name="Another title")).to_be_visible()
    assert latest(place)["Another title"]["paused"] is True


def test_the_threshold_of_a_seed_without_one_is_the_configured_one(
    place: Place, window: Window
) -> None:
    add(place, "fire")
    window.enter(place.desk(NEWSIFT_MATCHING__THRESHOLD="0.4").address)
    page = open_seed(window, "fire")
    expect(page.get_by_text("nothing: 0.4 (matching.threshold)")).to_be_visible()


def test_a_seed_that_was_changed_while_a_dialog_asked_is_not_removed(
    window: Window, place: Place
) -> None:
    window.bears("409")
    add(place, "fire")
    page = open_seed(window, "fire")
    press(page, "Remove")
    add(place, "fire", title="A ship burns")
    expect(page.locator("h1")).to_have_text("A ship burns")
    press(page, "Remove it")
    expect(page.get_by_text("has been changed by somebody since you looked")).to_be_visible()
    assert place.values("seeds")[-1]["title"] == "A ship burns"


def test_a_removal_that_ends_later_does_not_lead_away(window: Window, place: Place) -> None:
    add(place, "fire")
    held: list[Route] = []
    window.page.route("**/api/seeds/remove", lambda route: held.append(route))
    page = open_seed(window, "fire")
    press(page, "Remove")
    with page.expect_request("**/api/seeds/remove"):
        press(page, "Remove it")
    page.keyboard.press("Escape")
    page = window.open("seeds/add")
    held[0].continue_()
    expect(page.get_by_text("fire is removed")).to_be_visible()
    assert page.url.endswith("#/seeds/add")


def test_a_read_only_desk_offers_no_action(place: Place, window: Window) -> None:
    add(place, "fire")
    window.enter(place.desk("--read-only").address)
    page = window.open("seeds")
    page.get_by_role("link", name=TITLE).click()
    expect(page.locator(".facts")).to_be_visible()
    assert page.get_by_role("main").get_by_role("button").count() == 0


CREATION: dict[str, Any] = {
    "gained": [], "lost": [], "method": "seeds", "at": None, "by": "", "beta": 0, "cohesion": 0,
    "labels": 0, "posts": [],
}  # fmt: skip
LEARNED: dict[str, Any] = {
    "event": "storm", "error": "", "seeds": ["rain"], "all_seeds": 1, "has_profile": True,
    "profile": "in force", "why": "", "thresholds": [0.2], "automatic": True, "busy": "",
    "creation": CREATION, "promised": False, "run": None, "before": [], "back_to": False,
    "version": "v", "labels": {"on": 0, "off": 0},
}  # fmt: skip
PROPOSAL: dict[str, Any] = {
    "version": "w", "is_news": True, "creation": CREATION, "read": 337, "hours": 24,
    "passes": {"before": 41, "after": 40}, "threshold": {"before": [0.2], "after": [0.2]},
    "per_1000_of_the_background": {"before": 1, "after": 1}, "new_matches": [], "lost_matches": [],
}  # fmt: skip
RUN: dict[str, Any] = {
    "ended": True, "refusal": "", "messages": [], "risk": "", "seconds": 1, "hours": 24,
    "proposal": PROPOSAL,
}  # fmt: skip


def test_what_an_event_has_learned_is_told_of_a_promise_and_of_a_file(
    window: Window, place: Place
) -> None:
    place.send("seeds", ("rain", {"title": "Rain", "text": "Rain in the hills", "event": "storm"}))
    answers: list[dict[str, Any]] = [{"promised": True}, {"run": RUN}]

    def of_file(route: Route) -> None:
        response = route.fetch()
        answer = response.json()
        answer["answer"]["is_file"] = True
        route.fulfill(response=response, json=answer)

    window.page.route("**/api/session", of_file)
    window.page.route(
        "**/api/learned?*", lambda route: route.fulfill(json={"answer": LEARNED | answers[0]})
    )
    page = window.open("event/storm/learned")
    expect(page.get_by_text("alone. Renew the promise")).to_be_visible()
    del answers[0]
    page.reload()
    expect(page.get_by_text("Of 337 posts of the file")).to_be_visible()
