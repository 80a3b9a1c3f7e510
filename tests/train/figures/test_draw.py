import shutil
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from math import exp
from pathlib import Path

import entmax as published
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from sklearn.metrics import confusion_matrix, precision_score, recall_score

from encoder.model_directory import write_model
from tests.encoder.small_model import small_model
from tests.train.data_folder import folder, write
from tests.worker.fake_command import Command
from tests.worker.small_encoder import small_encoder
from train.data.readers import SkippedRows, TrainingArticle
from train.figures import case
from train.figures.draw import (
    FIGURES,
    MEAN_EXP,
    attention_weights,
    draw,
    most_shared,
    random_logits,
    simulate,
)
from train.figures.subject import Subject, drawable, fonts, glyphs, paper, render, shorten


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory) -> Subject:
    root = tmp_path_factory.mktemp("figures")
    write_model(root / "model", small_model(star="paper", layers=2))
    data, case = folder(root / "data"), study(root / "case")
    # No split: the few pairs of the test split are too few to be laid out.
    return Subject(str(root / "model"), data, case, None, 0.01, "cpu")


@pytest.fixture(autouse=True)
def style() -> Iterator[None]:
    with paper():
        yield


@pytest.mark.parametrize("name", list(FIGURES))
def test_a_figure_has_the_same_bytes_each_time(name: str, subject: Subject) -> None:
    once, again = FIGURES[name](subject), FIGURES[name](subject)
    for sheet, other in zip(once, again, strict=True):
        made = render(sheet)
        assert made == render(other)
        assert ET.fromstring(made["svg"]).tag.endswith("svg")
        assert b"<dc:date>" not in made["svg"]


def test_a_figure_without_data_is_skipped(subject: Subject, tmp_path: Path) -> None:
    messages: list[str] = []
    bare = Subject(subject.model, None, tmp_path / "none", None, 0.01, "cpu")
    files = [file.name for file in draw(bare, list(FIGURES), tmp_path, messages.append)]
    assert {file.partition(".")[0] for file in files} == {"attention", "alpha", "appendix"}
    assert [line.partition(":")[0] for line in messages] == ["tsne", "case", "reliability"]
    assert all("needs --" in line for line in messages)


def test_reliability_is_drawn_of_crises_alone(subject: Subject, tmp_path: Path) -> None:
    data = folder(tmp_path)
    shutil.rmtree(data / "pairs")
    crises = Subject(subject.model, data, None, None, 0.01, "cpu")
    (sheet,) = FIGURES["reliability"](crises)
    assert sheet.figure.axes[0].get_title() == "flood"


def test_the_command_writes_the_chosen_figures(
    newsift: Command, subject: Subject, tmp_path: Path
) -> None:
    out = tmp_path / "new" / "folder"
    done = newsift(
        "figures", subject.model, "--out", out, "--only", "alpha,tsne", "--device", "cpu"
    )
    assert done.code == 0
    assert done.out.split() == [str(out / "alpha.svg"), str(out / "alpha.png")]
    assert sorted(file.name for file in out.iterdir()) == ["alpha.png", "alpha.svg"]
    assert done.err == "newsift: tsne: needs --data with a folder pairs/\n"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--only", "tsne"], "nothing to draw"),
        (["--only", "alpah"], "--only: no figure 'alpah'"),
        (["--data", "nowhere"], "nowhere"),
    ],
)
def test_bad_options_are_refused(
    newsift: Command, tmp_path: Path, options: list[str], message: str
) -> None:
    done = newsift("figures", "default", "--out", tmp_path / "out", *options)
    assert done.code == 2
    assert message in done.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("count", [5, 25])
def test_attention_weights_are_those_of_the_published_functions(count: int) -> None:
    z = random_logits(count)
    weights = attention_weights(z)
    assert (np.diff(z) <= 0).all()
    assert len(z) == count
    assert weights[1.0] == pytest.approx(np.exp(z) / np.exp(z).sum(), abs=1e-6)
    assert weights[1.5] == pytest.approx(published.entmax15(torch.tensor(z)).numpy(), abs=1e-6)
    assert weights[2.0] == pytest.approx(published.sparsemax(torch.tensor(z)).numpy(), abs=1e-6)
    above = [np.count_nonzero(values) for values in weights.values()]
    assert above[0] == count
    assert above == sorted(above, reverse=True)


def test_the_expectation_is_the_integral_and_the_simulations_mean() -> None:
    first, second = (quad(lambda z, k=k: exp(k * z) / 2, -1, 1)[0] for k in (1, 2))
    assert pytest.approx(first) == MEAN_EXP
    assert f"{MEAN_EXP:.4f}" == "1.1752"
    sizes = np.array([3, 40])
    mean, low, high = simulate(sizes, draws=4000)
    error = np.sqrt((second - first**2) * sizes / 4000)
    assert (np.abs(mean - first * sizes) < 4 * error).all()
    # Far from the ends the sum is as good as normal: the middle 95 % is ± 1.96 deviations.
    spread = 1.96 * np.sqrt((second - first**2) * 40)
    assert high[1] - low[1] == pytest.approx(2 * spread, rel=0.05)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 15)), min_size=1, unique=True))
def test_the_most_shared_articles_are_those_of_a_counter(own: list[tuple[int, int]]) -> None:
    chosen = most_shared(np.array(sorted(own), np.int64), 3)
    shared = Counter(story for _, story in own)
    first = sorted(shared, key=lambda story: (-shared[story], story))[:3]
    assert list(chosen.stories) == first
    expected = {}
    for post, _ in own:
        mine = [place for place, story in enumerate(first) if (post, story) in own]
        if mine:
            expected[post] = mine[0]
    assert dict(zip(chosen.posts.tolist(), chosen.group.tolist(), strict=True)) == expected


def result(seed: int = 0) -> tuple[case.Result, np.ndarray, np.ndarray, np.ndarray]:
    """Random scores of 60 posts with four articles on three events."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(0, 1, (60, 4)).astype(np.float32)
    cuts, owner = rng.uniform(0.7, 0.9, 4).astype(np.float32), np.array([0, 1, 1, 2])
    labels = rng.integers(-1, 3, 60)
    events = ("flood", "fire", "match")
    posts = tuple(
        case.LabelledPost(f'post {i}, "quoted"\nin lines', None if e < 0 else events[e])
        for i, e in enumerate(labels.tolist())
    )
    seeds = tuple((events[e], TrainingArticle("", "text")) for i, e in enumerate(owner.tolist()))
    actual = case.decide(scores, cuts, owner)
    whole = case.Case(events, seeds, posts)
    return case.Result(whole, scores.max(1), labels, actual), scores, cuts, owner


def test_a_post_belongs_to_the_best_article_above_its_threshold() -> None:
    made, scores, cuts, owner = result()
    for i, row in enumerate(scores.tolist()):
        reached = [(s, j) for j, s in enumerate(row) if s >= cuts[j]]
        assert made.matched[i] == (owner[max(reached)[1]] if reached else -1)
    assert {-1, 0, 1, 2} == set(made.matched.tolist())


def test_the_confusion_matrix_is_that_of_scikit_learn() -> None:
    made = result()[0]
    table = case.confusion(made)
    expected = confusion_matrix(made.labels, made.matched, labels=[0, 1, 2, -1])
    assert table.tolist() == expected.tolist()
    precision, recall = case.precision_and_recall(table)
    options = {"labels": [0, 1, 2], "average": "micro"}
    assert precision == pytest.approx(precision_score(made.labels, made.matched, **options))
    assert recall == pytest.approx(recall_score(made.labels, made.matched, **options))
    assert np.isnan(case.precision_and_recall(np.zeros((2, 2), np.int64))).all()


def study(root: Path) -> Path:
    texts = {"flood/1": "# Flood\n\nstorm flood river", "flood/2": "river city",
             "game": "match game"}  # fmt: skip
    for name, text in texts.items():
        file = root / "seeds" / f"{name}.md"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    rows = [
        {"text": "storm flood river", "event": "flood"},
        {"text": "match game", "event": "game"},
        {"text": "a cat", "event": None},
        {"text": "storm of music", "event": "flood", "label": "off-topic"},
        {"text": "who", "event": "war"},
        {"text": ""},
    ]
    write(root / "posts.jsonl", rows)
    return root


def test_a_case_study_is_read_from_a_folder(tmp_path: Path) -> None:
    passed = SkippedRows()
    read = case.read_case(study(tmp_path), passed)
    assert sorted(read.events) == ["flood", "game"]
    assert {(event, story.title) for event, story in read.seeds} == {
        ("flood", "Flood"), ("flood", ""), ("game", "")
    }  # fmt: skip
    assert [post.event for post in read.posts] == ["flood", "game", None, None]
    assert passed.count == 2
    assert "posts.jsonl:5: is about 'war', on which there is no article" in passed.examples


def test_a_case_is_judged_at_the_automatic_thresholds(tmp_path: Path) -> None:
    enc = small_encoder()
    read = case.read_case(study(tmp_path), SkippedRows())
    made = case.judge(enc, read, 0.01)
    articles = enc.articles([(story.title, story.text) for _, story in read.seeds])
    cuts = enc.thresholds(articles, 0.01)
    for i, post in enumerate(read.posts):
        row = enc.posts([post.text]).similarity(articles)[0]
        assert made.score[i] == pytest.approx(row.max(), abs=1e-6)
        hits = [event for (event, _), s, c in zip(read.seeds, row, cuts, strict=True) if s >= c]
        assert [*read.events, "none"][made.matched[i]] in (hits or ["none"])


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fonts for nothing but DejaVu's, as on a machine without others."""
    monkeypatch.setattr("train.figures.subject.OTHER_FONTS", ())
    fonts.cache_clear()
    glyphs.cache_clear()


@given(st.text(max_size=80), st.integers(4, 20), st.integers(1, 3))
def test_a_text_is_cut_to_columns_and_lines_and_no_glyph_is_missing(
    text: str, columns: int, lines: int
) -> None:
    actual = shorten(text, columns, lines)
    assert actual.count("\n") < lines
    assert all(len(line) <= columns for line in actual.removeprefix(" ").split("\n"))
    assert all(ord(c) in glyphs() for c in actual.replace("\n", ""))


def test_words_stay_whole_where_they_fit_and_undrawable_runs_are_one_box() -> None:
    assert shorten("one two three", 7, 9) == "one two\nthree"
    assert shorten("extraordinary day", 5, 9) == "extra\nordin\nary\nday"
    assert shorten("one two three", 8, 1) == "one two…"
    assert drawable("so 👨\u200d👩\u200d👧 hot") == "so □ hot"
    assert drawable("ca\u00adfé") == "café"  # a soft hyphen is drawn as nothing
