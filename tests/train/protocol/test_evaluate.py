import io
import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from encoder import Embeddings
from encoder.errors import InputError
from encoder.model_directory import write_model
from tests.encoder.small_model import small_model
from tests.train.data_folder import EVENTS, folder, pair_rows, training_folder, write
from tests.worker.fake_command import Command
from tests.worker.small_encoder import small_encoder
from train.data.readers import Pair, SkippedRows, TrainingArticle
from train.loop.progress import ProgressLog
from train.protocol import evaluate as protocol
from train.protocol.evaluate import Evaluation, SetResult, make_reporter, mean_of_events
from train.protocol.metrics import Interval
from train.protocol.peers import JudgedEncoder, ReadOnce
from train.protocol.report import grid
from train.protocol.sets import (
    PREVALENCE,
    CrisisSet,
    Scores,
    crisis_figures,
    pair_figures,
    pair_set,
    read_pair_sets,
    threshold_figures,
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "small"
    write_model(path, small_model())
    return path


def crisis() -> CrisisSet:
    seeds = (
        TrainingArticle("flood", "a flood in the city"),
        TrainingArticle("", "storm and river"),
    )
    on = tuple(f"flood {w} storm" for w in ("city", "river", "police", "the"))
    off = ("music", "a match", "cat and game")
    return CrisisSet("flood", seeds, on, off, tuple(f"music {w}" for w in "abcdefg"))


def test_a_pair_set_holds_every_text_once_and_every_pair() -> None:
    a, b = TrainingArticle("A", "a text"), TrainingArticle("A", "a text, copied")
    other = TrainingArticle("C", "c text")
    result = pair_set("x", [Pair("p", a), Pair("q", b), Pair("p", a)], [other, a])
    assert result.posts == ("p", "q")
    assert result.stories == (a, other)
    assert result.own.tolist() == [[0, 0], [1, 0]]


def test_pools_join_only_where_nothing_was_trained_on(tmp_path: Path) -> None:
    folder(tmp_path)
    write(tmp_path / "pairs" / "small_pool.jsonl", [{"title": "more", "article": "of it"}])
    whole = read_pair_sets(tmp_path, None, SkippedRows())
    assert [one.name for one in whole] == ["small"]
    assert len(whole[0].stories) == 61
    parts = [
        read_pair_sets(tmp_path, split, SkippedRows())[0] for split in ("train", "dev", "test")
    ]
    assert sum(len(part.posts) for part in parts) == 60
    names = [{story.title for story in part.stories} for part in parts]
    assert not names[0] & names[1]
    assert not names[0] & names[2]


def test_judging_pairs_is_judging_all_of_them() -> None:
    rows = pair_rows(40)
    pairs = pair_set(
        "x", [Pair(r["post"], TrainingArticle(r["title"], r["article"])) for r in rows]
    )
    enc = small_encoder()
    figures = pair_figures(JudgedEncoder(enc).scorer()(pairs.posts, pairs.stories), pairs)
    scores = enc.posts(pairs.posts).similarity(
        enc.articles([(s.title, s.text) for s in pairs.stories])
    )
    own = {tuple(pair) for pair in pairs.own.tolist()}
    ranked = sorted(product(range(40), range(40)), key=lambda ij: -scores[ij])
    hits = [ij in own for ij in ranked]
    assert figures["P@50"] == pytest.approx(sum(hits[:50]) / 50)
    expected = np.mean([sum(hits[: r + 1]) / (r + 1) for r, hit in enumerate(hits) if hit])
    assert figures["mAP"] == pytest.approx(expected, abs=2e-3)


def test_the_figures_of_a_crisis_are_counted_from_the_similarities() -> None:
    enc, crisis_set = small_encoder(), crisis()
    articles = enc.articles([(s.title, s.text) for s in crisis_set.seeds])
    on, background = (
        enc.posts(posts).similarity(articles) for posts in (crisis_set.on, crisis_set.background)
    )
    score = JudgedEncoder(enc).scorer()(crisis_set.posts, crisis_set.seeds)
    scores = Scores.of(score, crisis_set)
    assert np.allclose(scores.on, on.max(1))
    assert np.allclose(scores.background, background.max(1))
    assert len(scores.off) == 3

    figures = crisis_figures(scores)
    cut = sorted(scores.on)[::-1][3]  # 80 % of four posts are reached with the fourth
    alarm = (1 - PREVALENCE) * float(np.mean(scores.background >= cut))
    assert figures["P@R80"] == pytest.approx(PREVALENCE / (PREVALENCE + alarm))

    cuts = enc.thresholds(articles, 0.01)
    figures = threshold_figures(score, cuts, crisis_set)
    assert figures["recall"] == pytest.approx(float((on >= cuts).any(1).mean()))
    passed = 1000 * float((background >= cuts).mean())
    assert figures["passed in 1,000, a seed"] == pytest.approx(passed)


def test_the_command_gives_json_with_the_peers(
    newsift: Command, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def absent() -> None:
        raise InputError("MiniLM is not installed")

    monkeypatch.setattr(protocol, "Teacher", absent)
    folder(tmp_path)
    options = ("--split", "all", "--json", "--draws", 5, "--rate", 0.01)
    done = newsift("evaluate", model, "--data", tmp_path, *options)
    assert done.code == 0, done.err
    pairs, event = json.loads(done.out)
    assert list(pairs["figures"]) == [
        str(model), "BM25", "TF-IDF, idf of the training text",
    ]  # fmt: skip
    assert pairs["figures"]["BM25"]["P@3000"] > 0
    assert event["intervals"]["AUC off"]["BM25"][1]["low"] <= 1
    assert "no MiniLM" in done.err


def test_only_what_may_train_counts_for_the_idf_of_the_training_text(tmp_path: Path) -> None:
    folder(tmp_path)
    counted = protocol.training_text(tmp_path)
    judging = [
        pair for split in ("dev", "test") for pair in read_pair_sets(tmp_path, split, SkippedRows())
    ]
    assert counted
    assert not set(counted) & {post for one in judging for post in one.posts}
    write(tmp_path / "empty" / "pairs" / "small.jsonl", [])
    stream = io.StringIO()
    result = protocol.installed_peers(None, tmp_path / "empty", ProgressLog(stream))
    assert list(result)[:1] == ["BM25"]
    assert "no TF-IDF by the training text" in stream.getvalue()


@pytest.mark.parametrize("lacking", ["off", "background"])
def test_an_event_is_judged_against_what_is_there(
    newsift: Command, model: Path, tmp_path: Path, lacking: str
) -> None:
    folder(tmp_path)
    shutil.rmtree(tmp_path / "pairs")
    if lacking == "background":
        shutil.rmtree(tmp_path / "tweets")
    else:
        on = [{"event": "flood", "text": f"flood {i}", "label": "on-topic"} for i in range(5)]
        write(tmp_path / "crisis" / "posts.jsonl.gz", on)
    options = ("--data", tmp_path, "--split", "all", "--no-peers", "--draws", 5, "--rate", 0.01)
    table = newsift("evaluate", model, *options, "--wrong", 2)
    card, data = (newsift("evaluate", model, *options, form) for form in ("--card", "--json"))
    assert table.code == card.code == data.code == 0, table.err + card.err + data.err
    assert "nan" not in table.out + card.out
    (event,) = json.loads(data.out)
    figures = event["figures"][str(model)]
    assert f"AUC {lacking}" not in figures
    assert (figures["passed in 1,000, a seed"] is None) == (lacking == "background")
    background = ["AUC background", "recall at 0.01 of the background"]
    assert list(event["intervals"]) == (["AUC off"] if lacking == "background" else background)


def test_a_folder_without_labels_is_refused(newsift: Command, model: Path, tmp_path: Path) -> None:
    done = newsift("evaluate", model, "--data", tmp_path)
    assert done.code == 2
    assert "pairs/" in done.err
    write(tmp_path / "pairs" / "a.jsonl", [{"tweet": "x", "body": "y"}])
    done = newsift("evaluate", model, "--data", tmp_path, "--split", "all", "--no-peers")
    assert done.code == 2
    assert "skipped rows: 1 (a.jsonl:1: " in done.err


def test_only_the_events_of_the_split_are_judged(
    newsift: Command, model: Path, tmp_path: Path
) -> None:
    training_folder(tmp_path)
    for split, events in (("test", ["event 0"]), ("dev", ["event 1"]), ("all", list(EVENTS))):
        options = ("--split", split, "--no-peers", "--draws", 0, "--rate", 0.01, "--json")
        done = newsift("evaluate", model, "--data", tmp_path, *options)
        assert done.code == 0, done.err
        result = [one["name"] for one in json.loads(done.out) if one["kind"] == "crisis"]
        assert sorted(result) == sorted(events)


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_grid_has_a_dash_where_nothing_is_and_years_at_the_end() -> None:
    (table,) = grid({"a": {"2016": "1", "all": "2"}, "b": {"all": "3", "2013": "4"}})
    rows = [cells(line) for line in table.split("\n")]
    assert rows == [
        ["", "a", "b"], ["---"] * 3, ["all", "2", "3"], ["2013", "–", "4"], ["2016", "1", "–"]
    ]  # fmt: skip


def test_scores_stand_in_their_order_whichever_set_has_them() -> None:
    (table,) = grid({"a": {"-0.05": "1", "0.10": "2"}, "b": {"0.05": "3", "0.10": "4"}})
    assert [cells(line)[0] for line in table.split("\n")[2:]] == ["-0.05", "0.05", "0.10"]


def test_the_card_holds_the_figures_and_no_text(
    newsift: Command, model: Path, tmp_path: Path
) -> None:
    options = (
        "evaluate", model, "--data", folder(tmp_path), "--split", "all", "--no-peers",
        "--draws", 5, "--rate", 0.3,
    )  # fmt: skip
    plain, card = newsift(*options, "--wrong", 2), newsift(*options, "--card")
    assert plain.code == card.code == 0, plain.err + card.err
    assert "--mix" in newsift(*options, "--wrong", 2, "--mix", 0).err
    assert "--mix" not in plain.err
    assert plain.out.count("  post: ") in range(1, 7)  # two of each of three kinds at most
    for text in ("flood in the city", "music", "today"):
        assert text not in card.out
    row = next(line for line in card.out.split("\n") if line.startswith(f"| {model} |"))
    measured = [cell.partition(" ")[0] for cell in cells(row)[1:] if cell != "–"]
    assert len(measured) > 3
    assert all(figure in plain.out for figure in measured)
    assert "| all | " in card.out
    assert "(60) | " in card.out


@pytest.mark.parametrize(
    ("option", "value", "remedy"),
    [("reader", "skim", "--reader"), ("mix", 0.0, "--mix"), ("models", ("cnn",), "a model")],
)
def test_what_keeps_wrong_posts_from_being_shown_is_said(
    option: str, value: Any, remedy: str, tmp_path: Path
) -> None:
    evaluation = Evaluation(
        models=("ours",), data=tmp_path, split=None, peers=False, draws=0, rate=0.01, device="cpu",
        mix=None, examples=1,
    )  # fmt: skip
    log = ProgressLog(stream := io.StringIO())
    encoders = {"ours": small_encoder()}
    assert make_reporter(evaluation, encoders, log) is not None
    assert not stream.getvalue()
    assert make_reporter(replace(evaluation, **{option: value}), encoders, log) is None
    assert [r for r in ("--reader", "--mix", "a model") if r in stream.getvalue()] == [remedy]


def test_that_no_wrong_post_passes_is_said(newsift: Command, model: Path, tmp_path: Path) -> None:
    write(tmp_path / "pairs" / "one.jsonl", pair_rows(1))
    options = ("--data", tmp_path, "--split", "all", "--no-peers", "--draws", 0, "--wrong", 2)
    done = newsift("evaluate", model, *options, "--rate", 0.01)
    assert done.code == 0, done.err
    assert "--wrong: no wrong post" in done.err
    assert "--mix" not in done.err


def test_each_post_is_read_once_whatever_sets_hold_it() -> None:
    enc, read = small_encoder(), list[str]()

    def posts(texts: Sequence[str]) -> Embeddings:
        read.extend(texts)
        return enc.posts(texts)

    once = ReadOnce(posts)
    sets = ["flood city", "storm", "storm"], ["music", "storm"], ["music"]
    for texts in sets:
        expected, given = enc.posts(texts), once(texts)
        assert np.array_equal(given.dense, expected.dense)
        assert np.array_equal(given.lexical.weights, expected.lexical.weights)
    assert sorted(read) == ["flood city", "music", "storm"]


def test_the_mean_of_crises_counts_each_the_same_and_draws_crises_again() -> None:
    events = []
    for name, values in (("a", (0.5, 0.4)), ("b", (0.9, 0.6))):
        event = SetResult("crisis", name, "")
        for scorer, value in zip(("ours", "theirs"), values, strict=True):
            event.figures[scorer] = {"AUC off": value} | ({"recall": value} if value > 0.5 else {})
            both = Interval(value, 0, 1)
            event.intervals.setdefault("AUC off", {})[scorer] = both, both
        events.append(event)
    mean = mean_of_events(events, draws=200)
    assert mean.figures == {
        "ours": {"AUC off": pytest.approx(0.7)},
        "theirs": {"AUC off": pytest.approx(0.5)},
    }
    own, apart = mean.intervals["AUC off"]["theirs"]
    assert (own.value, own.low, own.high) == pytest.approx((0.5, 0.4, 0.6))
    assert (apart.value, apart.low, apart.high) == pytest.approx((-0.2, -0.3, -0.1))
