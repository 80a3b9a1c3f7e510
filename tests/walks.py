"""The files of which a function runs while one post, one seed and one label pass, traced.

Worker, desk and commands run as users start them, on an embedded broker, each with a tracer. Left
out are functions that run in the same time while nothing passes; the broker; and what is compiled
by numba, which a tracer does not see. The encoder counts as one file.
"""

import atexit
import inspect
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import CodeType, FrameType
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

from newsift.broker.server import running
from newsift.cli.demo import SAMPLES
from tests.broker.clients import read_to_end, until, write
from tests.patterns import ROOT

VARIABLE = "NEWSIFT_TEST_TRACE"  # the file that a traced process writes
FORGET, WRITE = signal.SIGRTMIN, signal.SIGRTMIN + 1
SITE = "from tests import walks\n\nwalks.install()\n"
PACKAGES = ("encoder", "worker", "newsift")
IDLE_S = 8.0
START_S = 180.0  # a tracer takes most of it
EVENT, JUDGE = "ferry-fire", "ada"
POSTS = 600  # to judge, most of which match
PROMISE = {"precision": 0.8, "confidence": 0.9}
BIN = Path(sys.executable).parent
Codes = frozenset[str]  # file and line of each function


def install() -> None:
    """Trace this process, if it is told to."""
    if VARIABLE not in os.environ:
        return
    seen: set[CodeType] = set()

    def see(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            seen.add(frame.f_code)

    def write_seen(*_: object) -> None:
        names = sorted(f"{code.co_filename}:{code.co_firstlineno}" for code in set(seen)
                       if code.co_flags & inspect.CO_OPTIMIZED)  # fmt: skip
        file = Path(os.environ[VARIABLE])
        file.with_suffix(".new").write_text(json.dumps(names), "utf-8")
        file.with_suffix(".new").replace(file)

    signal.signal(FORGET, lambda *_: seen.clear())
    signal.signal(WRITE, write_seen)
    atexit.register(write_seen)
    threading.setprofile(see)
    sys.setprofile(see)


def files_of(codes: Codes) -> list[str]:
    """The files of the product, the encoder as one."""
    files = {code.rpartition(":")[0].removeprefix(f"{ROOT}/") for code in codes}
    product = {file for file in files if file.split("/")[0] in PACKAGES}
    return sorted(
        {"encoder/" if file.startswith("encoder/") else file for file in product
         if not file.startswith("newsift/broker/")}
    )  # fmt: skip


class Process:
    """A process that is traced."""

    def __init__(self, place: "Walk", *command: str) -> None:
        number = next(place.numbers)
        self._trace = place.folder / f"trace-{number}"
        self._log = place.folder / f"log-{number}"
        env = place.env | {VARIABLE: str(self._trace)}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [BIN / command[0], *command[1:]], cwd=ROOT, env=env,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip

    @property
    def output(self) -> str:
        return self._log.read_text("utf-8", "replace")

    def says(self, words: str) -> None:
        until(lambda: words in self.output or self.process.poll() is not None, START_S)
        assert words in self.output, self.output

    def forget(self) -> None:
        self.process.send_signal(FORGET)

    def codes(self) -> Codes:
        """The functions that have run since it was told to forget."""
        self._trace.unlink(missing_ok=True)
        if self.process.poll() is None:
            self.process.send_signal(WRITE)
        until(self._trace.exists)
        return frozenset(json.loads(self._trace.read_text("utf-8")))

    def idle(self) -> Codes:
        """The functions that run while nothing passes."""
        self.forget()
        time.sleep(IDLE_S)
        return self.codes()

    def end(self) -> None:
        self.process.kill()
        self.process.wait()


class Walk:
    """The topics of a broker, and the processes on it."""

    def __init__(self, folder: Path, kafka: str) -> None:
        self.folder, self.kafka, self.numbers = folder, kafka, itertools.count()
        (folder / "sitecustomize.py").write_text(SITE, "utf-8")
        self.env = os.environ | {
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "NEWSIFT_KAFKA": kafka,
            "XDG_STATE_HOME": str(folder), "NEWSIFT_MODEL__DEVICE": "cpu", "NEWSIFT_WEB__PORT": "0",
        }  # fmt: skip
        posts = map(json.loads, (SAMPLES / "posts.jsonl").read_text("utf-8").splitlines())
        self.posts = list(posts)

    def newsift(self, *arguments: str) -> Codes:
        """The functions that a command runs, without those that every command does."""
        command = Process(self, "newsift", *arguments)
        code = command.process.wait(10 * START_S)
        assert code == 0, command.output
        return frozenset(json.loads(command._trace.read_text("utf-8")))

    def send(self, *posts: dict[str, Any]) -> None:
        write(self.kafka, "tweets", [json.dumps(post).encode() for post in posts])

    def matches(self) -> list[Any]:
        return [json.loads(each.value) for each in read_to_end(self.kafka, "matched-tweets")]

    def match(self, count: int) -> None:
        until(lambda: len(self.matches()) >= count)
        time.sleep(2)  # until it is committed


class Desk:
    def __init__(self, walk: Walk) -> None:
        self.process = Process(walk, "newsift", "desk", "--port", "0")
        self.process.says("(Ctrl-C ends it)")
        line = next(part for part in self.process.output.split() if part.startswith("http://"))
        self._url, _, token = line.partition("?")
        self._headers = {
            "Authorization": f"Bearer {token.partition('=')[2]}",
            "Content-Type": "application/json",
        }

    def get(self, path: str, **values: Any) -> Any:
        return self._ask(f"{path}?{urlencode(values | {'event': EVENT})}")

    def post(self, path: str, **values: object) -> Any:
        return self._ask(path, json.dumps(values | {"event": EVENT, "by": JUDGE}).encode())

    def _ask(self, path: str, body: bytes | None = None) -> Any:
        request = Request(f"{self._url}api/judge/{path}", body, self._headers)
        with urlopen(request, timeout=60) as answer:
            return json.load(answer)["answer"]

    def answer(self) -> None:
        while (state := self.get("question", kind="certify", by=JUDGE))["drawing"]:
            time.sleep(0.1)
        post = state["question"]
        names = {"platform": post["platform"], "id": post["id"]}
        self.post("answer", kind="certify", queue=state["queue"], verdict="on", **names)

    def threshold(self) -> float | None:
        """That the labels show, if they are enough."""
        while "result" not in (test := self.get("promise-test", **PROMISE)):
            time.sleep(0.1)  # until the desk has read the control topic
        threshold: float | None = test["result"]["threshold"]
        return threshold

    def promise(self) -> None:
        self.post("promise", threshold=self.threshold(), **PROMISE)


def walks() -> Iterator[tuple[str, list[str]]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(running(auto_create=False))
        walk = Walk(folder, broker.address)
        walk.newsift("topics", "create")
        walk.newsift("seeds", "add", str(SAMPLES / "seeds" / f"{EVENT}.md"), "--event", EVENT)
        about = [post for post in walk.posts if post["event"] == EVENT]
        worker = Process(walk, "faust", "-A", "worker", "worker")
        stack.callback(worker.end)
        worker.says("ready:")
        walk.send(about[0])
        walk.match(1)
        idle = worker.idle()

        worker.forget()
        walk.send(about[1])
        walk.match(2)
        yield "one post", files_of(worker.codes() - idle)

        start = walk.newsift("config", "check")
        worker.forget()
        added = walk.newsift("seeds", "add", str(SAMPLES / "seeds" / "dam-overflow.md"))
        worker.says("2 seeds, set ")
        yield "one seed", files_of((added - start) | (worker.codes() - idle))

        walk.newsift("events", "learn", EVENT, "--background", "--yes")
        until(lambda: worker.output.count(" seeds, set ") > 2)
        texts = [post["text"] for post in about]
        pairs = itertools.islice(itertools.permutations(texts, 2), POSTS)
        copies = [{"id": f"pair-{n}", "text": " ".join(pair)} for n, pair in enumerate(pairs)]
        walk.send(*copies)
        walk.match(2 + len(copies) // 2)
        desk = Desk(walk)
        stack.callback(desk.process.end)
        while desk.threshold() is None:
            desk.answer()
        idle = desk.process.idle()
        desk.process.forget()
        desk.answer()
        desk.promise()
        yield "one label, from the answer to a promise,", files_of(desk.process.codes() - idle)
