import json
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).parents[2] / "docs" / "from-a-csv.ipynb"


def test_it_runs_from_a_csv_to_a_table_and_a_plot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matplotlib = pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    pandas = pytest.importorskip("pandas", reason="pandas is not installed")
    matplotlib.use("Agg")
    users = tmp_path / "of the user"
    users.mkdir()
    monkeypatch.chdir(users)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names: dict[str, Any] = {}
    for cell in json.loads(NOTEBOOK.read_text("utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), str(NOTEBOOK), "exec"), names)
    matches, hourly = names["matches"], names["hourly"]
    truth = names["invented"].set_index("id").event
    said = matches.set_index(matches.id.astype(truth.index.dtype)).event
    right = said.str.split().str[0] == truth[said.index].str.split("-").str[0]
    assert right.mean() > 0.8
    assert hourly.to_numpy().sum() == len(matches) > 50
    bars = sum(patch.get_height() for patch in names["axes"].patches)
    matplotlib.pyplot.close("all")
    assert bars == len(matches)
    assert len(pandas.read_csv(names["folder"] / "matches.csv")) == len(matches)
    assert list(users.iterdir()) == []  # where its own posts.csv may stand
    hours = names["posts"].created_at.dt.floor("h").unique()
    assert list(hourly.index) == list(hours)  # the posts leave out no hour, some have no match
    assert (hourly.sum(axis=1) == 0).any()
    assert len(names["axes"].patches) == hourly.size
