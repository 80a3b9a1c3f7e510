import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from encoder.model_directory import write_model
from tests.encoder.small_transformer import model_with_star
from tests.train.data_folder import training_folder
from train.transformer.candidates import RAISED, Kept, main


def test_the_share_is_of_what_only_reading_finds() -> None:
    found, every, none = (np.array(row, bool) for row in ([1, 0, 1, 1], [1, 1, 0, 1], [0, 0, 0, 1]))
    nothing = Kept.count(none, none, {2: none, 5: none})
    kept = Kept.count(every, none, {2: found, 5: every}) + nothing
    assert (kept.posts, kept.every, kept.none, kept.only_reading) == (8, 4, 2, 2)
    assert (kept.kept_share(2), kept.kept_share(5), nothing.kept_share(2)) == (0.5, 1, 1)


def test_a_line_for_each_crisis_and_for_each_kind_of_threshold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("train.transformer.candidates.RATE", 0.02)
    data = training_folder(tmp_path / "data")
    write_model(tmp_path / "model", model_with_star())
    options = ["--data", str(data), "--split", "test", "--model", str(tmp_path / "model")]
    done = CliRunner().invoke(main, options, catch_exceptions=False)
    lines = done.output.splitlines()
    assert len(lines) == 1 + len(RAISED)
    recalls = [float(re.findall(r"every post: ([0-9.]+)%", line)[0]) for line in lines]
    assert 0 < recalls[0] == recalls[1] <= 100
    assert recalls[1] >= recalls[2] >= recalls[3]
