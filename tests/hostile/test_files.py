from pathlib import Path

import pytest

from tests.hostile.files import FILES, MAX_FILE_BYTES, MAX_RESIDENT_BYTES, PAGES, read_named


@pytest.mark.parametrize("name", [*FILES, *PAGES])
def test_a_file_takes_less_than_a_gib(tmp_path: Path, name: str) -> None:
    result = read_named(name, tmp_path)
    assert (tmp_path / name).stat().st_size <= MAX_FILE_BYTES
    assert result.peak < MAX_RESIDENT_BYTES, result
    assert result.code in (0, 1, 2), result
    assert result.message.startswith("newsift: "), result
