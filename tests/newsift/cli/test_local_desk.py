import csv
import json
import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import pytest

from encoder.support.named import MODELS
from newsift.cli.demo import SAMPLES
from newsift.cli.local import local_cluster
from tests.broker.clients import until
from tests.newsift.desk.place import NEWSIFT, DeskProcess, desks
from tests.worker.fake import Command
from worker.config import Config, MatchingConfig, ModelConfig

POSTS = [
    ("1", "Lifeboats of the burning ferry Astrid Vane reach Port Maren"),
    ("2", "best tacos of my life"),
    ("3", "the clinics in Lorvik still cannot open patient files after the attack"),
]
ARTICLE = SAMPLES / "seeds" / "ferry-fire.md"
OTHER = SAMPLES / "seeds" / "clinic-hack.md"
Start = Callable[..., DeskProcess]


class Page:
    """Calls of a desk's endpoints, as its page makes them."""

    def __init__(self, desk: DeskProcess) -> None:
        self._desk = desk

    def __call__(self, path: str, **values: Any) -> Any:
        body = json.dumps(values | {"by": "ada"}).encode() if values else None
        headers = self._desk.login | {"Content-Type": "application/json"}
        with urlopen(Request(f"{self._desk.url}api/{path}", body, headers)) as answer:
            return json.load(answer)["answer"]

    def matches(self) -> dict[str, int]:
        """The number of matches by event."""
        return {row["event"]: sum(row["posts"]) for row in self("events")["events"]}


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


def worker_ids(desk: DeskProcess) -> list[int]:
    """The processes of the workers that a desk has started."""
    pids = subprocess.run(
        ["pgrep", "-P", str(desk.process.pid), "-f", "faust"], capture_output=True, check=False
    )
    return list(map(int, pids.stdout.split()))


def test_a_project_keeps_labels_and_articles_and_a_new_article_meets_all_posts(
    start: Start, posts: Path, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    desk = start("--file", posts, "--seeds", ARTICLE, "--project", project)
    page = Page(desk)
    until(lambda: page.matches() == {"ferry-fire": 1})
    assert page("health/summary")["file"]["state"] == "read"

    def question() -> Any:
        return page("judge/question?event=ferry-fire&by=ada")

    until(lambda: question().get("question"))
    queue = question()
    post = queue["question"]
    page(
        "judge/answer", event="ferry-fire", kind="certify", queue=queue["queue"],
        platform=post["platform"], id=post["id"], verdict="on",
    )  # fmt: skip
    (worker,) = worker_ids(desk)
    os.kill(worker, signal.SIGKILL)
    value = json.dumps({"text": OTHER.read_text("utf-8")})
    draft = {"id": "clinic-hack", "value": value, "source": "pasted"}
    page("seeds/publish", drafts=[draft], force=True)
    until(lambda: page.matches() == {"ferry-fire": 1, "clinic-hack": 1})
    assert desk.leave(signal.SIGINT) == 130
    assert "Traceback" not in desk.output

    page = Page(again := start("--project", project))
    until(lambda: page.matches() == {"ferry-fire": 1, "clinic-hack": 1})
    (label,) = page("judge/judges?event=ferry-fire")["counts"]
    assert label["by"] == "ada"
    assert again.leave() == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--file", "none.csv"], "none.csv"),
        (["--file", "noise.bin"], "noise.bin"),
        (["--file", "-"], "--file -"),
        (["--seeds", "posts.csv"], "--seeds"),
        (["--project", "empty"], "--file FILE"),
        (["--project", "gone"], "gone does not exist"),
        (["--project", "strange"], "notes.txt"),
        (["--project", "later"], "newsift.project/2"),
        (["--project", "posts.csv"], "posts.csv"),
        (["--file", "posts.csv", "--kafka", "127.0.0.1:1"], "--kafka"),
        (["--file", "posts.csv", "--seeds", "short.txt"], "short.txt"),
    ],
)
def test_refuses_what_is_no_project_no_posts_or_no_article(
    newsift: Command, posts: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(posts.parent)
    Path("noise.bin").write_bytes(bytes(range(256)))
    Path("short.txt").write_text("six words are not an article")
    Path("empty").mkdir()
    for folder, file, content in (
        ("strange", "notes.txt", "x"),
        ("later", "project.json", '{"schema": "newsift.project/2"}'),
    ):
        Path(folder).mkdir()
        Path(folder, file).write_text(content)
    done = newsift("desk", *arguments)
    assert done.code == 2
    assert words in done.err
    assert sorted(each.name for each in Path("strange").iterdir() if each.name[0] != ".") == [
        "notes.txt"
    ]
    assert not Path("gone").exists()


def test_a_project_is_open_in_one_desk_at_a_time(
    start: Start, newsift: Command, posts: Path, tmp_path: Path
) -> None:
    desk = start("--file", posts, "--project", tmp_path / "project")
    assert desk.address
    done = newsift("desk", "--project", tmp_path / "project")
    assert (done.code, "another desk" in done.err) == (2, True)


def test_the_demo_in_the_browser_has_matches_and_labels(tmp_path: Path) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("NEWSIFT_", "DISPLAY"))}
    with subprocess.Popen(
        [NEWSIFT, "demo", "--desk"], env=env, stderr=subprocess.PIPE, text=True, cwd=tmp_path
    ) as demo:
        assert demo.stderr is not None
        try:
            line = next(line for line in demo.stderr if "http://" in line)
            address = re.findall(r"(http://\S+/)\?token=(\S+)", line)[0]

            def matches() -> int:
                headers = {"Authorization": f"Bearer {address[1]}"}
                with urlopen(Request(f"{address[0]}api/events", headers=headers)) as answer:
                    events = json.load(answer)["answer"]["events"]
                return sum(sum(event["posts"]) for event in events)

            until(lambda: matches() > 20)
            demo.send_signal(signal.SIGINT)
            assert demo.wait(30) == 130
        finally:
            demo.kill()
    assert not list(tmp_path.iterdir())


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
