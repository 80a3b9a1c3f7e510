"""The card's section: every figure of the tables, and no text of the data."""

from pathlib import Path

import pytest

from encoder.model_directory import write_model
from tests.encoder.small import small_model
from tests.train.folders import folder
from tests.worker.fake import Command
from train.protocol.report import grid


def cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_grid_has_a_dash_where_nothing_is_and_years_at_the_end() -> None:
    (table,) = grid({"a": {"2016": "1", "all": "2"}, "b": {"all": "3", "2013": "4"}})
    rows = [cells(line) for line in table.split("\n")]
    assert rows == [
        ["", "a", "b"], ["---"] * 3, ["all", "2", "3"], ["2013", "–", "4"], ["2016", "1", "–"]
    ]  # fmt: skip


def test_the_card_holds_the_figures_and_no_text(
    newsift: Command, tmp_path_factory: pytest.TempPathFactory
) -> None:
    root: Path = tmp_path_factory.mktemp("card")
    write_model(root / "model", small_model())
    given = (
        "evaluate", root / "model", "--data", folder(root / "data"), "--split", "all", "--no-peers",
        "--draws", 5, "--rate", 0.3,
    )  # fmt: skip
    plain, card = newsift(*given, "--wrong", 2), newsift(*given, "--card")
    assert plain.code == card.code == 0, plain.err + card.err
    assert plain.out.count("  post: ") in range(1, 7)  # two of each of three kinds at most
    for text in ("flood in the city", "music", "today"):
        assert text not in card.out
    row = next(line for line in card.out.split("\n") if line.startswith(f"| {root / 'model'} |"))
    measured = [cell.partition(" ")[0] for cell in cells(row)[1:] if cell != "–"]
    assert len(measured) > 3
    assert all(figure in plain.out for figure in measured)
    assert "| all | " in card.out
    assert "(60) | " in card.out
