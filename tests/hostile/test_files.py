from pathlib import Path

import pytest

from tests.hostile.files import FILES, MAX_FILE_BYTES, MAX_RESIDENT_BYTES, PAGES, SEED, read


@pytest.mark.parametrize("name", [*FILES, *PAGES])
def test_a_file_takes_less_than_a_gib(tmp_path: Path, name: str) -> None:
    seed, posts, file = tmp_path / "seed.md", tmp_path / "posts.jsonl", tmp_path / name
    seed.write_text(SEED)
    posts.write_bytes(FILES["plain.jsonl"]())
    file.write_bytes({**FILES, **PAGES}[name]())
    assert file.stat().st_size <= MAX_FILE_BYTES
    result = read(posts, file) if name in PAGES else read(file, seed)
    assert result.peak < MAX_RESIDENT_BYTES, result
    assert result.code in (0, 1, 2), result
    assert result.message.startswith("newsift: "), result
