import os
import re
import signal
import time
from pathlib import Path

import pytest

from newsift.cli.demo import ADDED_SEED, REMOVED_SEED
from newsift.cli.demo_desk import PROVEN_EVENT, PROVEN_POSTS
from newsift.cli.samples import SAMPLES, as_message, read_articles, read_posts
from newsift.operations.events import events_of
from newsift.operations.model_context import ModelContext
from newsift.operations.profile_training import propose_profile
from newsift.statistics.labels import QueueName
from newsift.statistics.promise import confidence_of_test
from newsift.statistics.queues import CertifyQueue, ScoredPost
from tests.worker.command_processes import started
from tests.worker.fake_command import Command
from worker.config import Config
from worker.posts.compare import as_text
from worker.posts.outcome import PostId
from worker.posts.read import Post, read_post
from worker.seeds.state import ControlRecord, ControlReducer

EVENTS = sorted(file.stem for file in (SAMPLES / "seeds").glob("*.md"))
PATIENCE_S = 150.0  # a cold cache compiles first


def children(pid: int) -> list[int]:
    return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]


def test_the_demo_streams_matches_changes_its_seeds_and_sums_up(newsift: Command) -> None:
    done = newsift("demo", "--device", "cpu", "--seconds", "8")
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    assert re.search(r"Ready after .* s, on a broker in memory at 127", done.err)
    assert "newsift filter POSTS.jsonl" in done.err
    assert "newsift broker" in done.err
    lines = done.out.splitlines()
    matches = [line for line in lines if re.match(r"\d\.\d\d  ", line)]
    table = dict(re.findall(rf"^({'|'.join(EVENTS)}) +\d+ +(\d+) ", done.out, re.MULTILINE))
    assert sorted(table) == EVENTS
    assert sum(map(int, table.values())) == len(matches)
    added = lines.index(f"----  {ADDED_SEED:<18}article added")
    removed = lines.index(f"----  {REMOVED_SEED:<18}article removed")
    assert not [line for line in lines[:added] if line in matches and ADDED_SEED in line]
    assert [line for line in lines[added:] if line in matches and ADDED_SEED in line]
    assert [line for line in lines[:removed] if line in matches and REMOVED_SEED in line]
    assert "posts came before its article was added; 0 of them matched." in done.out
    assert "posts came after its article was removed; 0 of them matched." in done.out
    assert "Dead letters: 9 (bad_json 1, " in done.out


@pytest.fixture(scope="module")
def proven_matches() -> dict[ScoredPost, bool]:
    """What matches the demo's profile, and whether it is on the event."""
    context, topic = ModelContext(Config()), ControlReducer()
    record = read_articles()[PROVEN_EVENT]
    topic.apply([ControlRecord(PROVEN_EVENT.encode(), record, offset=0)])
    state = topic.snapshot()
    event = events_of(state, context.seed_set(state))[PROVEN_EVENT]
    proposal = propose_profile(context, event, None, (), 1)
    samples = {
        post: sample.event == PROVEN_EVENT
        for sample in (*read_posts(), *read_posts(PROVEN_POSTS))
        if isinstance(post := read_post(as_message(sample)), Post)
    }
    texts = [as_text(post, context.compare).text for post in samples]
    scores = proposal.profile.vector.scores(context.enc.posts(texts)).tolist()
    [threshold] = proposal.thresholds[1]
    return {
        ScoredPost(post, score): samples[post]
        for post, score in zip(samples, scores, strict=True) if score >= threshold
    }  # fmt: skip


@pytest.mark.parametrize("nonce", ["a", "b", "c"])
def test_nineteen_right_answers_about_the_samples_prove_a_threshold(
    proven_matches: dict[ScoredPost, bool], nonce: str
) -> None:
    confidence = confidence_of_test(0.9, 1)
    name = QueueName(nonce, "2026-03-01T10:00:00Z")
    queue = CertifyQueue([*proven_matches], 0.8, confidence, name)
    verdicts, right = (
        dict[PostId, bool](),
        {each.post_id: on for each, on in proven_matches.items()},
    )
    while queue.progress(verdicts).threshold is None:
        question = queue.next(verdicts)
        assert question is not None
        verdicts[question.candidate.post_id] = right[question.candidate.post_id]
    assert len(verdicts) == 19


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "moment"), [(signal.SIGINT, "Ready"), (signal.SIGTERM, "The worker starts")]
)
def test_an_interrupted_demo_leaves_no_process(kind: signal.Signals, moment: str) -> None:
    with started("demo", "--device", "cpu") as process:
        assert process.stderr is not None
        while moment not in (line := process.stderr.readline()):
            assert line, "the demo ended too early"
        began = time.monotonic()
        while not (young := children(process.pid)):
            assert time.monotonic() - began < PATIENCE_S
            time.sleep(0.01)
        process.send_signal(kind)
        _, err = process.communicate(timeout=PATIENCE_S)
        assert (process.returncode, err.splitlines()[-1]) == (130, "newsift: interrupted")
    for pid in young:
        stat = Path("/proc") / str(pid) / "stat"
        assert not stat.exists() or stat.read_text().rpartition(") ")[2][0] == "Z"


def test_reports_a_worker_that_ends(newsift: Command, tmp_path: Path) -> None:
    before = children(os.getpid())
    done = newsift("demo", "--model", tmp_path)  # an empty folder
    assert (done.code, "manifest.json" in done.err.splitlines()[-1]) == (1, True)
    assert set(children(os.getpid())) <= set(before)
