import csv
import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from encoder.support.named import MODELS
from newsift.cli.local import local_cluster
from newsift.cli.samples import SAMPLES
from newsift.desk.export import LABEL_COLUMNS
from tests.broker.clients import until
from tests.newsift.desk.desk_topics import DeskProcess, desks
from tests.worker.command_processes import environment
from tests.worker.fake_command import Command
from worker.config import Config, MatchingConfig, ModelConfig

POSTS = [
    ("1", "Lifeboats of the burning ferry Astrid Vane reach Port Maren"),
    ("2", "best tacos of my life"),
    ("3", "the clinics in Lorvik still cannot open patient files after the attack"),
]
ARTICLE = SAMPLES / "seeds" / "ferry-fire.md"
OTHER = SAMPLES / "seeds" / "clinic-hack.md"
Start = Callable[..., DeskProcess]


def matches(desk: DeskProcess) -> dict[str, int]:
    """The number of matches by event."""
    return {row["event"]: row["all_posts"] for row in desk.call("events")["events"]}


@pytest.fixture
def posts(tmp_path: Path) -> Path:
    file = tmp_path / "posts.csv"
    with file.open("w", newline="") as out:
        csv.writer(out).writerows([("id", "text"), *POSTS])
    return file


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with desks(tmp_path) as start:
        yield partial(start, "--port", "0")


def test_a_project_keeps_labels_and_articles_and_a_new_article_meets_all_posts(
    start: Start, posts: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    desk = start("--file", posts, "--seeds", ARTICLE, "--project", project)
    until(lambda: matches(desk) == {"ferry-fire": 1})
    until(lambda: desk.call("health")["file"]["state"] == "matched")

    def question(kind: str = "certify") -> Any:
        return desk.call(f"judge/question?event=ferry-fire&by=ada&kind={kind}")

    until(lambda: question().get("question"))
    queue = question()
    post = queue["question"]
    desk.call(
        "judge/answer", event="ferry-fire", kind="certify", queue=queue["queue"],
        platform=post["platform"], id=post["id"], verdict="on",
    )  # fmt: skip
    until(lambda: question("any").get("question"))
    asked = []
    while (queue := question("any"))["question"]:
        asked.append(queue["question"]["id"])
        desk.call("judge/answer", event="ferry-fire", kind="any", queue=queue["queue"],
                  platform="plain", id=asked[-1], verdict="on")  # fmt: skip
    assert sorted([*asked, post["id"]]) == ["1", "2", "3"]
    assert "recall in the file: 33 %, exactly, as all are read" in queue["progress"]
    children = ["pgrep", "-P", str(desk.process.pid), "-f", "faust"]
    (worker,) = subprocess.run(children, capture_output=True, check=True).stdout.split()
    os.kill(int(worker), signal.SIGKILL)
    value = json.dumps({"text": OTHER.read_text("utf-8")})
    draft = {"id": "clinic-hack", "value": value, "source": "pasted"}
    desk.call("seeds/publish", drafts=[draft], force=True)
    until(lambda: matches(desk) == {"ferry-fire": 1, "clinic-hack": 1})
    assert desk.leave(signal.SIGINT) == 130
    assert "Traceback" not in desk.output

    again = start("--project", project)
    until(lambda: matches(again) == {"ferry-fire": 1, "clinic-hack": 1})
    (label,) = again.call("judge/judges?event=ferry-fire")["counts"]
    assert label["by"] == "ada"
    assert again.leave() == 0


def test_the_export_is_the_table_of_filter_with_labels(
    start: Start, newsift: Command, tmp_path: Path
) -> None:
    file = tmp_path / "mine.csv"
    texts = [*(text for _, text in POSTS), POSTS[0][1], f"{POSTS[0][1]}, says the coast guard"]
    with file.open("w", newline="") as out:
        rows = [(f"user {n}", text, f"2024-05-0{n + 1} 10:00", n) for n, text in enumerate(texts)]
        csv.writer(out).writerows([("User", "Text", "Date", "Likes"), *rows])
    desk = start("--file", file, "--seeds", ARTICLE)
    until(lambda: matches(desk) == {"ferry-fire": 2})
    until(lambda: desk.call("health")["file"]["state"] == "matched")
    request = Request(f"{desk.url}api/export?event=ferry-fire&by=ada", headers=desk.login)
    with urlopen(request) as answer:
        ours = list(csv.DictReader(answer.read().decode().splitlines()))
    table = tmp_path / "m.csv"
    assert newsift("filter", file, "--seeds", ARTICLE, "--out", table).code == 0
    theirs = list(csv.DictReader(table.read_text().splitlines()))
    assert [row["line"] for row in ours] == ["2", "5", "6"]
    assert {row.pop(name) for row in ours for name in LABEL_COLUMNS} == {""}
    others = {"processed_at", "score", "threshold", "why"}  # the tests' own encoder only skims
    assert [list(row) for row in ours] == [list(row) for row in theirs]
    for our_row, their_row in zip(ours, theirs, strict=True):
        assert {name for name in our_row if our_row[name] != their_row[name]} <= others
    (event,) = desk.call("events")["events"]
    assert (event["last"], len(event["posts"])) == ("2024-05-05T10:00:00.000Z", 20)
    assert sum(event["posts"]) == 2


def test_a_project_is_open_in_one_desk_at_a_time(
    start: Start, newsift: Command, posts: Path, tmp_path: Path
) -> None:
    desk = start("--file", posts, "--project", tmp_path / "project")
    assert desk.address
    done = newsift("desk", "--project", tmp_path / "project")
    assert (done.code, "another desk" in done.err) == (2, True)


def test_the_demo_in_the_browser_has_matches_and_labels(tmp_path: Path) -> None:
    env = {name: value for name, value in environment().items() if name != "DISPLAY"}
    demo = DeskProcess.start(tmp_path, "newsift", "demo", "--desk", env=env)
    try:
        until(lambda: sum(matches(demo).values()) > 20)
        assert demo.leave(signal.SIGINT) == 130
    finally:
        demo.kill()
    assert list(tmp_path.iterdir()) == [demo.log]


def test_the_worker_of_a_desk_gets_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It runs in another folder, where relative ones name nothing."""
    (tmp_path / "own").symlink_to(MODELS / "default")
    monkeypatch.chdir(tmp_path)
    model, matching = ModelConfig(name="own"), MatchingConfig(background=Path("own.safetensors"))
    with local_cluster(Config(model=model, matching=matching)) as (local, _):
        assert local.model.name == str(MODELS / "default")
        assert local.matching.background == tmp_path / "own.safetensors"
