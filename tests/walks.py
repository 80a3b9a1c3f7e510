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

from newsift.broker.server import running
from newsift.cli.samples import SAMPLES
from tests.broker.clients import read_to_end, until, write
from tests.newsift.desk.desk_topics import DeskProcess
from tests.patterns import ROOT

VARIABLE = "NEWSIFT_TEST_TRACE"  # the folder that traced processes write to
FORGET, WRITE = signal.SIGRTMIN, signal.SIGRTMIN + 1
SITE = "from tests import walks\n\nwalks.install()\n"
PACKAGES = ("encoder", "worker", "newsift")
IDLE_S, MOST_S = 8.0, 1800.0  # of a command, whose tracer takes most of it
EVENT = "ferry-fire"
POSTS = 600  # to judge, most of which match
PROMISE = {"precision": 0.8, "confidence": 0.9}
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
        file = Path(os.environ[VARIABLE]) / f"trace-{os.getpid()}"
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


class Walk:
    """A broker, and traced processes on it."""

    def __init__(self, folder: Path, kafka: str) -> None:
        self.folder, self.kafka = folder, kafka
        (folder / "sitecustomize.py").write_text(SITE, "utf-8")
        self.env = os.environ | {
            "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}", "NEWSIFT_KAFKA": kafka,
            "XDG_STATE_HOME": str(folder), "NEWSIFT_MODEL__DEVICE": "cpu", "NEWSIFT_WEB__PORT": "0",
            VARIABLE: str(folder),
        }  # fmt: skip

    def start(self, command: str, *arguments: str) -> DeskProcess:
        return DeskProcess.start(self.folder, command, *arguments, env=self.env)

    def codes(self, run: DeskProcess) -> Codes:
        """The functions that a process has run since it was told to forget."""
        trace = self.folder / f"trace-{run.process.pid}"
        trace.unlink(missing_ok=True)
        run.process.send_signal(WRITE)
        until(trace.exists)
        return frozenset(json.loads(trace.read_text("utf-8")))

    def idle(self, run: DeskProcess) -> Codes:
        """The functions that run while nothing passes."""
        run.process.send_signal(FORGET)
        time.sleep(IDLE_S)
        return self.codes(run)

    def newsift(self, *arguments: str) -> Codes:
        """The functions that a command runs."""
        run = self.start("newsift", *arguments)
        assert run.process.wait(MOST_S) == 0, run.output
        return frozenset(json.loads((self.folder / f"trace-{run.process.pid}").read_text("utf-8")))

    def match(self, count: int, *posts: dict[str, Any]) -> None:
        """Send posts, and wait until there are so many matches."""
        write(self.kafka, "tweets", [json.dumps(post).encode() for post in posts])
        until(lambda: len(read_to_end(self.kafka, "matched-tweets")) >= count, MOST_S)
        time.sleep(2)  # until it is committed


def answer(desk: DeskProcess) -> None:
    question = f"judge/question?{urlencode({'event': EVENT, 'kind': 'certify', 'by': 'ada'})}"
    while (state := desk.call(question))["drawing"]:
        time.sleep(0.1)
    post = {"platform": state["question"]["platform"], "id": state["question"]["id"]}
    queue = {"event": EVENT, "kind": "certify", "queue": state["queue"]}
    desk.call("judge/answer", **queue, **post, verdict="on")


def evidence(desk: DeskProcess) -> Any:
    """What the labels show."""
    question = f"judge/promise-test?{urlencode(PROMISE | {'event': EVENT})}"
    while "result" not in (test := desk.call(question)):
        time.sleep(0.1)  # until the desk has read the control topic
    return test["result"]


def walks() -> Iterator[tuple[str, list[str]]]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        walk = Walk(folder, stack.enter_context(running(auto_create=False)).address)
        walk.newsift("topics", "create")
        walk.newsift("seeds", "add", str(SAMPLES / "seeds" / f"{EVENT}.md"), "--event", EVENT)
        rows = map(json.loads, (SAMPLES / "posts.jsonl").read_text("utf-8").splitlines())
        about = [post for post in rows if post["event"] == EVENT]
        worker = walk.start("faust", "-A", "worker", "worker")
        stack.callback(worker.kill)
        worker.wait_for("ready:")
        walk.match(1, about[0])
        idle = walk.idle(worker)

        worker.process.send_signal(FORGET)
        walk.match(2, about[1])
        yield "one post", files_of(walk.codes(worker) - idle)

        start = walk.newsift("config", "check")
        worker.process.send_signal(FORGET)
        added = walk.newsift("seeds", "add", str(SAMPLES / "seeds" / "dam-overflow.md"))
        worker.wait_for("2 seeds, set ")
        yield "one seed", files_of((added - start) | (walk.codes(worker) - idle))

        walk.newsift("events", "learn", EVENT, "--background", "--yes")
        worker.until(lambda: worker.output.count(" seeds, set ") > 2)
        pairs = itertools.islice(itertools.permutations([p["text"] for p in about], 2), POSTS)
        copies = [{"id": f"pair-{n}", "text": " ".join(pair)} for n, pair in enumerate(pairs)]
        walk.match(2 + len(copies) // 2, *copies)
        desk = walk.start("newsift", "desk", "--port", "0")
        stack.callback(desk.kill)
        until(lambda: not desk.call("events")["model"], MOST_S)  # it is loaded
        while evidence(desk)["threshold"] is None:
            answer(desk)
        idle = walk.idle(desk)
        desk.process.send_signal(FORGET)
        answer(desk)
        desk.call("judge/promise", event=EVENT, evidence=evidence(desk)["version"], **PROMISE)
        label = files_of(walk.codes(desk) - idle)
        yield "one label, from the answer to a promise,", label
