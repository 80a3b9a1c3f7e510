"""What stands on the sheets: words, numbers and marks; and the command that writes them."""

import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.text import Text

from encoder.directory import write_model
from tests.encoder.small import small_model
from tests.train.figures.test_numbers import study
from tests.train.folders import folder, write
from tests.worker.fake import Command
from train.data.readers import Passed
from train.figures.case import confusion, judge, read_case
from train.figures.draw import FIGURES, chosen, draw
from train.figures.softmax import MEAN_EXP, attention_weights, random_logits
from train.figures.style import Sheet, paper, rendered
from train.figures.subject import Subject


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


def words(figure: Figure) -> str:
    """All that is written on a figure."""
    return "\n".join(str(text.get_text()) for text in figure.findobj(Text))


def sheets(name: str, subject: Subject) -> dict[str, Sheet]:
    return {sheet.name: sheet for sheet in FIGURES[name](subject)}


def test_bars_are_the_weights_and_differ_by_more_than_colour(subject: Subject) -> None:
    figure = sheets("attention", subject)["attention"].figure
    for axes, count in zip(figure.axes, (5, 25), strict=True):
        weights = attention_weights(random_logits(count))
        bars = [c for c in axes.containers if isinstance(c, BarContainer)]
        for container, values in zip(bars, weights.values(), strict=True):
            drawn = [bar.get_height() for bar in container]
            assert drawn == pytest.approx(values[values > 0])
        looks = {(bars[i][0].get_facecolor(), bars[i][0].get_hatch()) for i in range(3)}
        assert len(looks) == 3
        assert f"above 0: {count}, " in axes.get_title()
        assert axes.get_ylabel() == "attention weight"


def test_a_dot_for_every_head_lies_at_its_alpha(subject: Subject) -> None:
    figure = sheets("alpha", subject)["alpha"].figure
    for axes, layer in zip(figure.axes, subject.encoder.model.weights.layers, strict=True):
        dots = {str(line.get_label()): line for line in axes.lines}
        assert dots["ring"].get_ydata() == pytest.approx(layer.ring.alpha)
        assert dots["star"].get_ydata() == pytest.approx(layer.star.alpha)
        assert dots["ring"].get_marker() != dots["star"].get_marker()
        assert f"star {layer.star.alpha.mean():.2f}" in axes.get_title()
    assert {"sparsemax", "softmax", "ring", "star"} <= set(words(figure).split("\n"))


def test_the_matrix_says_every_count(subject: Subject) -> None:
    assert subject.case is not None
    made = sheets("case", subject)
    axes = made["case-confusion"].figure.axes[0]
    read = read_case(subject.case, Passed())
    table = confusion(judge(subject.encoder, read, subject.rate))
    cells = {text.get_position(): text.get_text() for text in axes.texts}
    assert cells == {(j, i): str(count) for (i, j), count in np.ndenumerate(table)}
    rows = [text.get_text() for text in axes.get_yticklabels()]
    assert rows == [*read.events, "no event"]


def test_the_table_of_posts_shows_both_ends(subject: Subject) -> None:
    drawn = words(sheets("case", subject)["case-posts"].figure)
    for text in ("storm flood river", "a cat", "Most similar", "Least similar"):
        assert text in drawn


def test_posts_are_marked_by_article(subject: Subject, tmp_path: Path) -> None:
    things = ("storm flood", "match game", "police fire")
    rows = [
        {"post": f"{thing} {i}", "title": f"about {thing} $1 $2", "article": thing}
        for thing in things
        for i in range(4)
    ]
    write(tmp_path / "pairs" / "shared.jsonl", rows)
    one = Subject(subject.model, tmp_path, None, None, 0.01, "cpu")
    figure = sheets("tsne", one)["tsne"].figure
    axes = figure.axes[0]
    assert len({line.get_marker() for line in axes.lines}) == 3
    assert [len(np.asarray(line.get_xdata())) for line in axes.lines] == [4, 4, 4]
    assert "about storm flood $1 $2 (4)" in words(figure)
    assert "12 posts on the 3 most shared articles of shared" in words(figure)


def test_the_appendix_draws_the_expectation(subject: Subject) -> None:
    axes = sheets("appendix", subject)["appendix"].figure.axes[0]
    line = next(line for line in axes.lines if str(line.get_label()).startswith("expectation"))
    sizes, values = (np.asarray(x) for x in line.get_data())
    assert values == pytest.approx(MEAN_EXP * sizes)
    axes.figure.canvas.draw()
    assert {"1", "10", "1,000"} <= {text.get_text() for text in axes.get_xticklabels()}


def test_every_set_has_its_precision_and_its_numbers(subject: Subject) -> None:
    figure = sheets("reliability", subject)["reliability"].figure
    assert [axes.get_title() for axes in figure.axes[:2]] == ["flood", "small"]
    event, pairs = figure.axes[2:4]
    for axes, counted in (
        (event, {"on topic": 20, "off topic": 20, "background": len(subject.crises[0].background)}),
        (pairs, {"on topic": 60, "other articles": 60 * 59}),
    ):
        lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in axes.lines}
        assert {name: values.sum() for name, values in lines.items()} == counted
    articles = subject.encoder.articles(subject.crises[0].seeds)
    (cut,) = subject.encoder.thresholds(articles, subject.rate)
    line = next(x for x in figure.axes[0].lines if x.get_label() == "automatic threshold")
    assert np.asarray(line.get_xdata()) == pytest.approx([cut, cut])
    assert "precision where one in 26 is on topic" in words(figure)


@pytest.mark.parametrize("name", list(FIGURES))
def test_a_figure_has_named_axes_and_the_same_bytes_each_time(name: str, subject: Subject) -> None:
    once, again = FIGURES[name](subject), FIGURES[name](subject)
    for sheet, other in zip(once, again, strict=True):
        made = rendered(sheet)
        assert made == rendered(other)
        assert ET.fromstring(made["svg"]).tag.endswith("svg")
        assert b"<dc:date>" not in made["svg"]
        for axes in sheet.figure.axes:
            assert not axes.axison or (axes.get_xlabel() and named_up(sheet.figure, axes))


def named_up(figure: Figure, axes: Axes) -> bool:
    """Whether a panel, or the first of its row, says what rises in it."""
    return bool(axes.get_ylabel() or axes.get_title() or figure.axes[0].get_ylabel())


def test_a_figure_without_its_data_is_passed_over(subject: Subject, tmp_path: Path) -> None:
    said: list[str] = []
    bare = Subject(subject.model, None, tmp_path / "none", None, 0.01, "cpu")
    files = [file.name for file in draw(bare, list(FIGURES), tmp_path, said.append)]
    assert {file.partition(".")[0] for file in files} == {"attention", "alpha", "appendix"}
    assert [line.partition(":")[0] for line in said] == [
        "tsne", "case", "reliability"
    ]  # fmt: skip
    assert all("needs --" in line for line in said)


def test_the_command_writes_what_was_asked_for(
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
    ("options", "said"),
    [
        (["--only", "tsne"], "nothing to draw"),
        (["--only", "alpah"], "--only: no figure 'alpah'"),
        (["--data", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_drawn_ends_with_two(
    newsift: Command, tmp_path: Path, options: list[str], said: str
) -> None:
    done = newsift("figures", "default", "--out", tmp_path / "out", *options)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "out").exists()


def test_a_missing_library_is_named_with_its_remedy(
    newsift: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "train.figures.draw", None)
    done = newsift("figures", "default", "--out", tmp_path)
    assert done.code == 2
    assert 'is not installed; figures need it: pip install "newsift[figures]"' in done.err


def test_names_are_joined_by_commas() -> None:
    assert chosen("alpha, case") == ["alpha", "case"]
    assert chosen("") == list(FIGURES)
