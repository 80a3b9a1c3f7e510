"""`newsift events learn --every`: it goes on while it is safe, and ends cleanly however it ends."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from newsift.cli.events import learn_repeatedly
from newsift.operations.model_context import ModelContext
from newsift.operations.profile_training import LearnOptions, ProfileTraining, Proposal
from newsift.operations.seed_topic import seed_topic
from tests.newsift.cli.events.ferry import add_posts, add_seeds, is_on, sample_posts
from tests.newsift.cli.labels.at_terminal import CODE, ROOT, AtTerminal
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, SEEDS, Kafka
from worker.config import load_config
from worker.kafka.reading import connected
from worker.seeds.profile import Profile, read_record
from worker.seeds.state import ControlState

KEY = b"profile|ferry"
HOUR = 3_600_000
PATIENCE_S = 60.0


def versions(kafka: Kafka) -> list[Profile]:
    """All profiles that were ever published."""
    result = [read_record(r.key, r.value) for r in kafka.records(SEEDS) if r.key == KEY and r.value]
    assert all(isinstance(each, Profile) for each in result)
    return [each for each in result if isinstance(each, Profile)]


def a_burst(kafka: Kafka) -> None:
    """An event that begins after a day without it."""
    now = int(time.time() * 1000)
    for post in [post for post in sample_posts() if not is_on(post)][:80]:
        kafka.send(POSTS, json.dumps(post).encode(), at=now - 30 * HOUR)
    for post in filter(is_on, sample_posts()):
        kafka.send(POSTS, json.dumps(post).encode(), at=now - HOUR)


@contextmanager
def learning(*args: str) -> Iterator["subprocess.Popen[str]"]:
    """The command in a process of its own, killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", CODE, "events", "learn", "ferry", "--yes", *args],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT, env=dict(os.environ),
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until_published(kafka: Kafka, count: int) -> None:
    ends = time.monotonic() + PATIENCE_S
    while len(versions(kafka)) < count:
        assert time.monotonic() < ends
        time.sleep(0.2)


@pytest.mark.slow
def test_it_goes_on_and_sigterm_ends_it(kafka: Kafka) -> None:
    add_seeds(kafka)
    a_burst(kafka)
    with learning("--every", "1s") as process:
        until_published(kafka, 1)
        for n in range(8):
            text = f"Ferry Astrid Vane on fire, lifeboat {n} of the Astrid Vane reached Port Maren"
            kafka.send(POSTS, json.dumps({"id": f"new{n}", "text": text}).encode())
        until_published(kafka, 2)
        process.send_signal(signal.SIGTERM)
        message, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, message
    assert "Traceback" not in message
    attempts = [each.made["attempts"] for each in versions(kafka)]
    assert attempts == sorted(set(attempts))
    assert versions(kafka)[-1].before


def test_it_publishes_nothing_that_nobody_should_trust(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    add_posts(kafka)
    done = newsift("events", "learn", "ferry", "--yes", "--every", "1s")
    assert done.code == 0
    assert "it would not be safe: too little history" in done.err
    assert versions(kafka) == []


class OvertakenTraining(ProfileTraining):
    """Lets somebody else forget the profile between the first proposal and its publication."""

    rounds = 0

    def propose(self) -> tuple[Proposal, ControlState]:
        self.rounds += 1
        if self.rounds == 3:
            raise KeyboardInterrupt
        return super().propose()

    def publish(self, proposal: Proposal, state: ControlState) -> None:
        if self.rounds == 1:
            with seed_topic(load_config()) as topic:
                topic.publish({KEY: None})
        super().publish(proposal, state)


def test_a_round_that_is_overtaken_is_left_to_the_next(
    kafka: Kafka, capsys: pytest.CaptureFixture[str]
) -> None:
    add_seeds(kafka)
    a_burst(kafka)
    config = load_config()
    with connected(config) as cluster:
        learning = LearnOptions("ferry", 24 * 3600.0, labels=False)
        with pytest.raises(KeyboardInterrupt):
            learn_repeatedly(OvertakenTraining(cluster, ModelContext(config), learning), every=0.0)
    err = capsys.readouterr().err
    assert err.index("was published by somebody else") < err.index("published: ")
    assert err.count("the control topic was read to offset 3, ") == 1
    assert len(versions(kafka)) == 1


@pytest.mark.slow
def test_a_kill_leaves_the_old_or_the_new_profile(newsift: Command, kafka: Kafka) -> None:
    add_seeds(kafka)
    assert newsift("events", "learn", "ferry", "--background", "--yes").code == 0
    a_burst(kafka)
    with learning() as process:
        until_published(kafka, 2)
        process.kill()
    (row,) = [json.loads(line) for line in newsift("events", "list", "--json").out.splitlines()]
    assert row["profile"] == "in force"
    assert row["version"] == versions(kafka)[-1].version


def test_seeds_add_offers_a_profile_at_a_terminal(kafka: Kafka, tmp_path: Any) -> None:
    add_seeds(kafka)
    file = str(tmp_path / "more.md")
    Path(file).write_text("# The ferry was towed\n\nTugs towed the Astrid Vane.\n")
    with AtTerminal("seeds", "add", file, "--event", "ferry", "--force") as terminal:
        terminal.hears("event 'ferry' has 3 seeds")
        terminal.hears("[y/N]: ")
        terminal.press("y\n")
        assert "background" in terminal.hears("Publish this profile of 'ferry'? [y/N]: ")
        terminal.press("y\n")
        assert terminal.ends() == 0
    (made,) = versions(kafka)
    assert made.seeds.keys() == {"fire", "rescue", "more"}


def says_no(terminal: AtTerminal) -> int:
    terminal.press("n\n")
    return terminal.ends()


@pytest.mark.slow
@pytest.mark.parametrize(("answer", "code"), [(says_no, 0), (AtTerminal.interrupts, 130)])
def test_no_consent_publishes_nothing(
    kafka: Kafka, answer: Callable[[AtTerminal], int], code: int
) -> None:
    add_seeds(kafka)
    with AtTerminal("events", "learn", "ferry", "--background") as terminal:
        terminal.hears("[y/N]: ")
        assert answer(terminal) == code
        assert "Traceback" not in terminal.shown
    assert versions(kafka) == []
