from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, ViewportSize, expect

from tests.broker.clients import until
from tests.newsift.desk.browser.browser_window import Window
from tests.newsift.desk.browser.conftest import MakeWindow
from tests.newsift.desk.browser.test_every_page import barriers
from tests.newsift.desk.desk_topics import DeskProcess, Place
from tests.worker.judged_matches import drawn, first_label, match

NAMES = [str(n) for n in range(120)]
ORDER = drawn(NAMES)
HERE = "event/storm/judge"
PHONE: ViewportSize = {"width": 390, "height": 844}


@pytest.fixture(autouse=True)
def matches(place: Place) -> None:
    place.send("seeds", ("rain", {"title": "Rain", "text": "Rain in the hills", "event": "storm"}))
    place.send("matches", *((None, match(name)) for name in NAMES))
    first = first_label(NAMES[-1])
    place.send("labels", (first.key.decode(), first.value))


def judging(window: Window, by: str) -> Page:
    page = window.open()
    page.get_by_label("You are").fill(by)
    page.get_by_label("You are").press("Enter")
    page = window.open(HERE)
    expect_post(page, ORDER[0])
    return page


def expect_post(page: Page, name: str) -> None:
    expect(page.locator(".post .words")).to_contain_text(f"rain {name}")


def labels_of(place: Place) -> list[tuple[str, str]]:
    return [(row["post"]["id"], row["label"]) for row in place.values("labels")
            if row and row["by"] == "ann"]  # fmt: skip


def test_posts_are_judged_by_keys_and_a_reload_goes_on(window: Window, place: Place) -> None:
    page = judging(window, "ann")
    for at, key in enumerate("yynuyyynyy"):
        expect_post(page, ORDER[at])
        page.keyboard.press(key)
    expect_post(page, ORDER[10])
    expect(page.get_by_role("status").get_by_text("saved", exact=True)).to_be_visible()
    words = {"y": "on", "n": "off", "u": "unsure"}
    assert labels_of(place) == [
        (name, words[key]) for name, key in zip(ORDER, "yynuyyynyy", strict=False)
    ]
    for at in (9, 8, 7):
        page.keyboard.press("z")
        expect_post(page, ORDER[at])
    page.reload()
    expect_post(page, ORDER[7])
    page.locator(".answers .off").dblclick()
    expect_post(page, ORDER[8])


def test_what_counts_as_on_is_written_down_for_both_judges(
    windows: MakeWindow, place: Place
) -> None:
    ann, ben = judging(windows(), "ann"), judging(windows(), "ben")
    ann.get_by_role("button", name="Write down what counts as on").click()
    ann.get_by_label("What counts as on").press_sequentially("rain, not funny jokes")
    ann.get_by_role("link", name="Matches", exact=True).click()
    expect(ann.get_by_label("What counts as on")).to_have_count(0)
    ann.get_by_role("link", name="Judge").click()
    ann.get_by_role("button", name="Save", exact=True).click()
    for page in (ann, ben):
        expect(page.get_by_text("rain, not funny jokes")).to_be_visible()
        expect_post(page, ORDER[0])  # no letter of the note was an answer
    note = place.values("labels")[-1]
    assert note["by"] == "ann"
    place.send("labels", ('["storm"]', note | {"note": "<b>turned</b> \u202e", "by": "<i>eve"}))
    for page in (ann, ben):
        expect(page.get_by_text("<b>turned</b> ⟨U+202E⟩")).to_be_visible()
        expect(page.get_by_text("<i>eve")).to_be_visible()


def test_a_post_that_is_deleted_leaves_the_question_and_its_text_the_list(
    windows: MakeWindow, place: Place
) -> None:
    page, matches = judging(windows(), "ann"), windows().open("event/storm/matches")
    place.send("matches", (None, match("newest")))
    newest = matches.locator("article[data-card='x|newest']")
    expect(newest).to_contain_text("rain newest")
    for name in ("newest", ORDER[0]):
        deletion = {"post": {"id": name, "platform": "x"}, "deleted_at": "2026-03-01T10:00:00Z"}
        place.send("matches", (name, deletion))
    expect_post(page, ORDER[1])
    expect(page.get_by_role("status").get_by_text("has been deleted")).to_be_visible()
    expect(newest).to_contain_text("The post was deleted.")
    expect(newest).not_to_contain_text("rain newest")
    expect(newest.get_by_role("link")).to_have_count(0)


def test_two_judges_are_compared_and_one_corrects_a_label(
    windows: MakeWindow, place: Place
) -> None:
    ann, ben = judging(windows(), "ann"), judging(windows(viewport=None), "ben")
    for at, (one, other) in enumerate(zip("yyyn", "yyny", strict=True)):
        for page, key in ((ann, one), (ben, other)):
            expect_post(page, ORDER[at])
            page.keyboard.press(key)
    agreement = "ann and ben: the same for {} of 4 posts"
    expect(ann.get_by_text(agreement.format(2))).to_be_visible()
    expect(ann.get_by_text("2 posts on which they differ")).to_be_visible()
    disputed = ann.locator(".disputed li", has_text=f"rain {ORDER[2]}")
    expect(disputed).to_contain_text("⟨U+202E⟩")
    disputed.get_by_role("button", name="Judge").click()
    expect(ann.get_by_text("what you called on")).to_be_visible()
    expect(ann.get_by_text("Score 0.500; 0.250 has to be reached")).to_be_visible()
    ann.keyboard.press("n")
    expect(ann.get_by_text("1 post on which they differ")).to_be_visible()
    for page in (ann, ben):
        expect(page.get_by_text(agreement.format(3))).to_be_visible()
    assert labels_of(place)[-1] == (ORDER[2], "off")


def test_an_answer_that_was_not_published_survives_a_reload(window: Window, place: Place) -> None:
    window.bears("502")

    def away(route: Route) -> None:
        route.fulfill(status=502, json={"reason": "broker nowhere: is away"})

    window.page.route("**/api/judge/answer", away)
    page = judging(window, "ann")
    page.keyboard.press("y")
    expect(page.get_by_text("1 answer is kept on this page")).to_contain_text("broker nowhere")
    expect_post(page, ORDER[1])
    page.reload()
    expect(page.get_by_text("1 answer is kept on this page")).to_be_visible()
    assert labels_of(place) == []
    page.unroute("**/api/judge/answer")
    page.get_by_role("button", name="Try now").click()
    expect(page.get_by_text("kept on this page")).to_have_count(0)
    expect_post(page, ORDER[1])
    assert labels_of(place) == [(ORDER[0], "on")]


def test_an_answer_that_waits_is_shown_and_sent_from_every_page(
    window: Window, place: Place
) -> None:
    window.bears("ERR_FAILED")
    window.page.route("**/api/judge/answer", lambda route: route.abort())
    page = judging(window, "ann")
    page.keyboard.press("y")
    waits = page.get_by_role("banner").get_by_text("1 answer not saved yet")
    expect(waits).to_be_visible()
    window.open("seeds")
    page.reload()
    expect(waits).to_be_visible()
    asked: list[str] = []
    window.context.on("dialog", lambda dialog: asked.append(dialog.type))
    page.get_by_role("link", name="Events").click()  # a page that was used may ask
    page.reload()
    assert asked == ["beforeunload"]
    page.unroute("**/api/judge/answer")
    expect(waits).to_have_count(0)
    until(lambda: labels_of(place) == [(ORDER[0], "on")])


def test_a_refused_answer_is_corrected_for_its_own_event(
    window: Window, place: Place, desk: DeskProcess
) -> None:
    place.send("seeds", ("calm", {"title": "Calm", "text": "No wind at all", "event": "calm"}))
    held: list[Route] = []
    window.page.route("**/api/judge/answer", lambda route: held.append(route))
    page = judging(window, "ada")
    with page.expect_request("**/api/judge/answer") as sent:
        page.keyboard.press("y")
    answer = sent.value.post_data_json
    assert answer
    desk.call("judge/answer", **answer | {"verdict": "off"})  # in another tab
    window.open("event/calm/judge")
    expect(page.get_by_text("no post of the last 24 hours has matched")).to_be_visible()
    held[0].continue_()
    missed = page.get_by_text("Not saved")
    expect(missed).to_contain_text("of the event storm")
    page.get_by_role("button", name="Make it on").click()
    expect(missed).to_have_count(0)

    def own() -> list[tuple[str, str]]:
        rows = [row for row in place.values("labels") if row and row["by"] == "ada"]
        return [(row["event"], row["label"]) for row in rows]

    until(lambda: own() == [("storm", "off"), ("storm", "on")])


def test_a_key_that_is_held_answers_one_post(window: Window, place: Place) -> None:
    page = judging(window, "ann")
    page.locator(".answers .off").focus()
    for at, key in enumerate(("Enter", "n")):
        page.keyboard.down(key)
        expect(page.get_by_text(f"{at + 1} label{'s' * at} of yours")).to_be_visible()
        expect_post(page, ORDER[at + 1])
        page.keyboard.down(key)  # a repetition
        page.keyboard.up(key)
    page.keyboard.press("y")
    until(lambda: len(labels_of(place)) >= 3)
    assert labels_of(place) == [(ORDER[0], "off"), (ORDER[1], "off"), (ORDER[2], "on")]


def test_a_queue_is_drawn_again_from_the_present_matches(window: Window, place: Place) -> None:
    page = judging(window, "ann")
    expect(page.get_by_text("120 matches of the last 24 hours")).to_be_visible()
    place.send("matches", (None, match("late")))
    page.get_by_role("button", name="Draw again").click()
    expect(page.get_by_text("121 matches of the last 24 hours")).to_be_visible()


def test_posts_are_drawn_labelled_and_counted(window: Window, place: Place) -> None:
    window.bears("409", "502")
    page = judging(window, "ann")
    page.get_by_label("Posts drawn for a count").check()
    page.get_by_role("combobox", name="Draw").select_option("40")
    expect(page.get_by_text("40 left of 40 drawn")).to_be_visible()
    for left in (39, 38):
        page.keyboard.press("y")
        expect(page.get_by_text(f"{left} left of 40 drawn")).to_be_visible()
    expect(page.get_by_role("combobox", name="Draw")).to_have_count(0)
    drawn = [row["drawn"] for row in place.values("labels") if row and row["by"] == "ann"]
    assert drawn == ["count"] * 2
    page = window.open("event/storm/scores")
    expect(page.get_by_text("2 of 40 drawn posts are labelled").first).to_be_visible()
    expect(page.get_by_text("An upper end needs 8 more labels")).to_be_visible()


def test_the_focus_stays_while_a_queue_is_drawn_or_answers_are_saved(
    window: Window, place: Place
) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        if held:
            route.continue_()
        else:
            held.append(route)

    window.page.route("**/api/judge/answer", hold)
    page = judging(window, "ann")
    on = page.locator(".answers .on")
    on.focus()
    with page.expect_request("**/api/judge/answer"):
        page.keyboard.press("Enter")
    expect_post(page, ORDER[1])
    page.keyboard.press("Enter")  # This answer waits for the first,
    expect(page.get_by_text("Saving …", exact=True)).to_be_visible()
    page.keyboard.press("Enter")  # and nobody has seen the next post.
    held[0].continue_()
    expect_post(page, ORDER[2])
    expect(page.get_by_text("2 labels of yours")).to_be_visible()
    expect(on).to_be_focused()
    page.get_by_label("Matches drawn at random").focus()
    kinds = {"learn": "Posts around the threshold", "count": "Posts drawn for a count"}
    for kind, name in kinds.items():
        with page.expect_response(f"**kind={kind}**"):
            page.keyboard.press("ArrowDown")
        expect(page.locator(".progress")).to_be_visible()
        expect(page.get_by_label(name)).to_be_focused()
    draw = page.get_by_role("combobox", name="Draw")
    draw.focus()
    page.keyboard.press("ArrowUp")
    expect(page.get_by_text("40 left of 40 drawn")).to_be_visible()
    expect(draw).to_be_focused()


def test_the_choice_of_a_goal_stays_open(window: Window, place: Place) -> None:
    plan = {"at_best": 20, "for_all": 30, "usual": 40, "expected_share": 0.95}
    result = {"threshold": None, "matches": 120, "labels": 3, "on": 3, "missing": 9, "plan": plan}
    test = {
        "profile": "v", "loading": False, "threshold": None, "promise": None, "stale": "",
        "result": result, "missing": "9 more labels", "hourly": None,
    }  # fmt: skip

    def answer(route: Route) -> None:
        asked = parse_qs(urlsplit(route.request.url).query)
        goal = {name: float(asked.get(name, ["0.85"])[0]) for name in ("precision", "confidence")}
        route.fulfill(json={"answer": test | goal})

    window.page.route("**/api/judge/promise-test?*", answer)
    page = judging(window, "ann")
    page.get_by_text("Choose something else").click()
    least = page.get_by_role("combobox", name="At least")
    expect(least).to_have_value("0.85")
    least.focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_text("90 % on the event, 85 % sure")).to_be_visible()
    expect(least).to_be_focused()
    expect(least).to_have_value("0.9")


def test_a_goal_is_chosen_before_there_is_a_profile_and_kept_by_the_labels(
    window: Window, place: Place
) -> None:
    page = judging(window, "ann")
    least = page.get_by_role("combobox", name="At least")
    expect(least).to_have_value("0.8")
    with page.expect_response("**/api/judge/question?**precision=0.9**"):
        least.select_option("0.9")
    page.get_by_role("link", name="Scores").click()
    page.get_by_role("link", name="Judge").click()
    expect(least).to_have_value("0.9")
    expect(page.locator(".post .words")).to_be_visible()
    page.keyboard.press("y")
    until(lambda: len(labels_of(place)) == 1)
    assert place.values("labels")[-1]["queue"]["goal"] == [0.9, 0.9]
    page.reload()
    expect(least).to_have_value("0.9")


def test_on_a_phone_the_first_steps_are_folded_once_a_post_is_labelled(
    windows: MakeWindow, place: Place
) -> None:
    page = judging(windows(viewport=PHONE), "ann")
    note = page.get_by_role("button", name="Write down what counts as on")
    least = page.get_by_role("combobox", name="At least")
    expect(note).to_be_visible()
    expect(least).to_be_visible()
    page.keyboard.press("y")
    expect_post(page, ORDER[1])
    expect(note).to_be_hidden()
    expect(least).to_be_hidden()
    page.evaluate("scrollTo(0, 0)")
    box = page.locator(".answers").bounding_box()
    assert box
    assert box["y"] + box["height"] < PHONE["height"]
    assert barriers(page) == []
    page.get_by_role("heading", name="What is the event?").click()
    expect(note).to_be_visible()
    page.keyboard.press("n")
    expect_post(page, ORDER[2])
    expect(note).to_be_visible()  # what was opened stays open
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(least).to_be_visible()


def test_an_empty_queue_is_requested_again_after_an_error(window: Window, place: Place) -> None:
    window.bears("502")
    place.send("seeds", ("calm", {"title": "Calm", "text": "No wind at all", "event": "calm"}))
    page = window.open("event/calm/judge")
    expect(page.get_by_text("This page looks again by itself.")).to_be_visible()
    refusal = {"reason": "broker nowhere: is away"}
    page.route("**/api/judge/question?*", lambda route: route.fulfill(status=502, json=refusal))
    expect(page.get_by_text("broker nowhere")).to_be_visible()
    page.unroute("**/api/judge/question?*")
    place.send("matches", (None, match("late", event="calm")))
    expect_post(page, "late")
    expect(page.get_by_text("broker nowhere")).to_have_count(0)
