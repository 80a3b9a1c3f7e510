from pathlib import Path

import pytest
from click.testing import CliRunner

from newsift.cli import cli


@pytest.mark.parametrize("name", ["profiles", "promise", "stories"])
def test_a_bench_of_crises_needs_data(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.cli.SHARED_DATA", tmp_path / "nothing")
    result = CliRunner().invoke(cli, ["bench", name])
    assert isinstance(result.exception, SystemExit)
    assert result.exit_code == 2
    assert "--data" in result.output
