import csv
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.broker.clients import until
from tests.newsift.cli.events.ferry_event import ARTICLES, sample_posts
from tests.newsift.desk.browser.browser_window import SETTLED_MS, Window
from tests.newsift.desk.browser.test_every_page import NASTY, SMALL, barriers
from tests.newsift.desk.desk_topics import DeskProcess, desks

DROP = """([name, content]) => {
  const files = new DataTransfer();
  files.items.add(new File([content], name, { type: "text/csv" }));
  const init = { dataTransfer: files, bubbles: true, cancelable: true };
  document.querySelector("main").dispatchEvent(new DragEvent("drop", init));
}"""


# Whether all that the header shows is in one row, and nothing of it is cut off.
IS_ONE_ROW = """() => {
  const boxes = [...document.querySelectorAll("header > *, .health > *")]
    .map((each) => each.getBoundingClientRect()).filter((box) => box.width);
  const lowest = Math.max(...boxes.map((box) => box.top));
  return boxes.every((box) => box.bottom > lowest && box.right <= innerWidth);
}"""


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[DeskProcess]:
    with desks(tmp_path) as start:
        yield start("--projects", tmp_path / "projects", "--port", "0")


@pytest.fixture
def window(browser: Browser, desk: DeskProcess) -> Iterator[Window]:
    shown = Window(browser, desk.address, viewport=SMALL)
    yield shown
    shown.close()


def a_table(folder: Path) -> str:
    file = folder / "posts.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        rows = csv.writer(out, delimiter=";")
        rows.writerow(["Nr", "Was sie schrieben", "Wann"])
        rows.writerows([post["id"], post["text"], "2013-04-15 10:00"] for post in sample_posts())
        rows.writerow(["x", "", "gestern"])
    return file.read_text("utf-8")


def choose_columns(page: Page) -> None:
    expect(page.get_by_text("Choose the column that holds the texts")).to_be_visible()
    button = page.get_by_role("button", name="Make the project")
    expect(button).to_be_disabled()
    page.get_by_role("combobox", name="Text", exact=True).select_option("Was sie schrieben")
    page.get_by_role("combobox", name="Id", exact=True).select_option("Nr")
    page.get_by_role("combobox", name="Time", exact=True).select_option("Wann")
    page.get_by_label("Time zone").fill("Europe/Berlin")
    page.get_by_label("Time zone").press("Tab")
    expect(page.get_by_text("2013-04-15 08:00:00 UTC")).to_be_visible()
    left_out = page.get_by_role("status", name="What will be left out")
    expect(left_out).to_contain_text(f"{len(sample_posts())} of {len(sample_posts()) + 1} rows")
    expect(left_out).to_contain_text("1 row without text")
    page.get_by_label("Name of the project").fill("../ferry")
    button.click()
    expect(page.get_by_role("alert")).to_contain_text("without /")
    page.get_by_label("Name of the project").fill("ferry")
    button.click()


def paste(page: Page, name: str) -> None:
    title, text = ARTICLES[name]
    page.get_by_label("Paste a text").fill(f"# {title}\n\n{text}")
    page.get_by_role("button", name="Read the text").click()


def rename(page: Page, name: str, fresh: str) -> None:
    page.get_by_role("button", name=f"Rename {name}").click(timeout=SETTLED_MS)
    page.get_by_label("New name").fill(fresh)
    page.get_by_label("New name").press("Enter")


def test_from_a_file_that_is_dropped_to_its_matches(window: Window, tmp_path: Path) -> None:
    window.bears("409")  # the name that is refused
    page = window.open()
    expect(page.get_by_role("heading", name="Projects")).to_be_visible()
    page.evaluate(DROP, ["posts.csv", a_table(tmp_path)])
    choose_columns(page)
    page.get_by_role("link", name="Add the first seed").click(timeout=SETTLED_MS)
    page.get_by_role("link", name="Add an article").click()
    paste(page, "fire")
    nothing = page.get_by_text("There is no post of the file to try")
    expect(nothing).to_be_visible(timeout=SETTLED_MS)  # once the model is loaded
    page.get_by_label("Event").fill("ferry")
    page.get_by_role("button", name="Publish 1 seed").click()
    expect(page.get_by_text("it is on the topic")).to_be_visible()
    window.open("event/ferry")
    expect(page.locator("article.match").first).to_be_visible(timeout=SETTLED_MS)
    strip = page.get_by_role("status", name="Health")
    expect(strip.get_by_text("all well")).to_be_visible(timeout=SETTLED_MS)
    assert page.evaluate(IS_ONE_ROW)
    window.open("seeds/add")
    paste(page, "rescue")
    expect(page.get_by_text("of the file would have matched")).to_be_visible()
    page.get_by_role("button", name="Start over").click()
    page.get_by_role("link", name="Projects").click()
    page.get_by_role("button", name="Close").click()
    rename(page, "ferry", "../boat")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("without /")
    expect(page.get_by_label("New name")).to_have_value("../boat")
    page.get_by_role("button", name="Cancel").click()
    rename(page, "ferry", "boat")
    rename(page, "boat", "ferry")
    page.get_by_role("button", name="Delete ferry").click(timeout=SETTLED_MS)
    expect(page.get_by_role("dialog")).to_contain_text("1 article or profile")
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    expect(page.get_by_text("ferry is deleted")).to_be_visible()
    assert [each.name for each in (tmp_path / "projects").iterdir()] == [".lock"]
    assert (tmp_path / "posts.csv").exists()


def test_what_ends_later_does_not_lead_away_from_another_page(
    window: Window, tmp_path: Path
) -> None:
    window.bears("409")  # an upload that there is not
    held: list[Route] = []
    window.page.route("**/api/projects/piece", lambda route: held.append(route))
    page = window.open()
    with page.expect_request("**/api/projects/piece"):
        page.evaluate(DROP, ["posts.csv", a_table(tmp_path)])
    page.goto(f"{window.url}#/projects/new/none")
    back = page.get_by_role("link", name="All projects")
    back.wait_for()
    back.click()
    expect(page.get_by_text("posts.csv: 0 % sent")).to_be_visible()
    page.goto(f"{window.url}#/projects/new/none")
    back.wait_for()
    held[0].continue_()
    expect(page.get_by_text("posts.csv is sent")).to_be_visible()
    assert page.url.endswith("new/none")
    back.click()
    expect(page.get_by_role("heading", name="What is in posts.csv")).to_be_visible()


def make(desk: DeskProcess, name: str) -> None:
    content = b"text\na ferry burns\n"
    token = desk.call("projects/upload", name=f"{name}.csv", size=len(content))
    desk.call("projects/piece", upload=token, offset=0, content=b64encode(content).decode())
    desk.call("projects/create", upload=token, name=name)
    until(lambda: desk.call("session")["project"] == name)


def test_a_project_that_opens_leads_nobody_away_who_has_gone_on(
    window: Window, desk: DeskProcess
) -> None:
    window.bears("409")  # a page asks while its project closes
    for name in ("one", "two"):
        make(desk, name)
    page = window.open("seeds/add")
    page.get_by_label("Paste a text").fill("\n\n".join(ARTICLES["fire"]))
    page.get_by_role("button", name="Read the text").click()
    drafts = page.get_by_role("article")
    expect(drafts).to_have_count(1)
    page = window.open("projects")
    one = page.get_by_role("listitem", name="one")
    one.get_by_role("button", name="Open").click()
    page.get_by_role("link", name="Events", exact=True).click()
    until(lambda: desk.call("session")["project"] == "one")
    expect(page.get_by_role("link", name="Seeds")).to_be_visible()
    page.get_by_role("link", name="Projects").click()
    expect(one.get_by_text("Go to its events")).to_be_visible()
    assert page.url.endswith("#/projects")
    page = window.open("seeds/add")  # the draft is of the other project
    expect(page.get_by_label("Paste a text")).to_be_visible()
    expect(drafts).to_have_count(0)


def test_the_project_that_is_open_is_named_and_another_tab_that_opens_one_too(
    window: Window, desk: DeskProcess
) -> None:
    window.bears("409")  # a page asks while its project closes
    for name in ("one", "two"):
        make(desk, name)
    page = window.open("seeds")
    links = page.get_by_role("status", name="Health").get_by_role("link")
    expect(links).to_have_text("two")
    assert page.evaluate(IS_ONE_ROW)  # while it waits for the first article
    desk.call("projects/open", name="one")
    said = page.get_by_role("alert").filter(has_text="Another tab has opened one")
    expect(said).to_be_visible()
    expect(links).to_have_text("one")
    said.get_by_role("button", name="Go on").click()
    expect(said).to_have_count(0)
    page = window.open("projects")
    two = page.get_by_role("listitem", name="two")
    two.get_by_role("button", name="Open").click()
    expect(links).to_have_text("two")
    expect(page.get_by_role("heading", name="Events")).to_be_visible()
    expect(page.get_by_text("Another tab has opened")).to_have_count(0)


def test_one_row_that_is_no_post_is_left_out(window: Window) -> None:
    def answer(route: Route) -> None:
        response = route.fetch()
        content = response.json()
        content["answer"]["other"] = 1
        route.fulfill(response=response, json=content)

    window.page.route("**/api/projects/preview?*", answer)
    page = window.open()
    page.evaluate(DROP, ["posts.csv", "text,id\na ferry burns,1\n"])
    left_out = page.get_by_role("status", name="What will be left out")
    expect(left_out).to_contain_text("1 row that is no post, such as deletions")


def test_a_header_alone_makes_no_project(window: Window) -> None:
    page = window.open()
    page.evaluate(DROP, ["posts.csv", "text,id\n"])
    left_out = page.get_by_role("status", name="What will be left out")
    expect(left_out).to_contain_text("0 of 0 rows")
    expect(left_out).to_contain_text("no column of times was found")
    expect(page.get_by_role("alert")).to_contain_text("No row becomes a post")
    expect(page.get_by_role("button", name="Make the project")).to_be_disabled()


@pytest.mark.parametrize("look", ["light", "dark"])
def test_a_hostile_file_neither_runs_nor_breaks_a_narrow_page(window: Window, look: str) -> None:
    page = window.open()
    page.emulate_media(color_scheme="dark" if look == "dark" else "light")
    assert barriers(page) == []
    row = ",".join('"' + foe.replace('"', '""').replace("\0", "") + '"' for foe in NASTY)
    page.evaluate(DROP, [f"{NASTY[0]}.csv", f"text,{row}\n" + f"a ferry burns,{row}\n" * 20])
    expect(page.get_by_role("status", name="What will be left out")).to_contain_text("20 of 20")
    assert barriers(page) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= SMALL["width"]
    page.get_by_role("button", name="Cancel").click()
    expect(page.get_by_role("heading", name="Projects")).to_be_visible()
