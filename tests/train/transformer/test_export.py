from pathlib import Path

import pytest
from click.testing import CliRunner

import encoder
from encoder.model_directory import write_model
from tests.encoder.small_model import small_model
from tests.encoder.small_transformer import write_run
from tests.train.data_folder import training_folder
from train.data.readers import SkippedRows
from train.model.export import export as export_model
from train.run import read_background_posts
from train.transformer import export


def test_a_run_becomes_a_model_that_reads_by_its_star(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "DEV_TEXTS", 20)
    data = training_folder(tmp_path / "data")
    posts, base = read_background_posts(data, SkippedRows()), small_model()
    skim = export_model(base.weights, base.vocabulary, base.idf, base.mix, posts)
    write_model(tmp_path / "skim", skim)
    write_run(tmp_path / "star")

    def options(model: str) -> list[str]:
        places = {"data": data, "star": tmp_path / "star", "model": tmp_path / model}
        pairs = ((f"--{name}", str(place)) for name, place in places.items())
        return [word for pair in pairs for word in pair] + ["--out", str(tmp_path / "out")]

    result = CliRunner().invoke(export.main, options("skim"), catch_exceptions=False)
    enc = encoder.load(tmp_path / "out", device="cpu")
    assert enc.digest[:12] in result.output
    assert (enc.path, len(enc.background)) == ("onnx", len(posts))
    write_model(tmp_path / "other", base)
    with pytest.raises(encoder.InputError, match="--data"):
        CliRunner().invoke(export.main, options("other"), catch_exceptions=False)
