from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from encoder.model_directory import write_model
from tests.encoder.small_transformer import model_with_star
from tests.train.data_folder import training_folder
from train.transformer.candidates import FACTORS, kept_share, main


def test_the_share_is_of_what_only_reading_finds() -> None:
    found, every, none = (np.array(row, bool) for row in ([1, 0, 1, 1], [1, 1, 0, 1], [0, 0, 0, 1]))
    assert kept_share(found, every, none) == 0.5
    assert kept_share(found, none, none) == 1


def test_a_line_for_each_factor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("train.transformer.candidates.RATE", 0.02)
    data = training_folder(tmp_path / "data")
    write_model(tmp_path / "model", model_with_star())
    options = ["--data", str(data), "--split", "test", "--model", str(tmp_path / "model")]
    done = CliRunner().invoke(main, options, catch_exceptions=False)
    lines = done.output.splitlines()
    assert len(lines) == 1 + len(FACTORS)
    recalls = [float(line.split("recall ")[1].split("%")[0]) for line in lines[1:]]
    assert all(0 < recall <= 100 for recall in recalls)
