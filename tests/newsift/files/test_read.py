import glob
import gzip
import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.files.read import DamagedError, find_files, glob_files, unpack_text

Pack = Callable[[bytes], bytes]
PACKERS: list[Pack] = [bytes, gzip.compress, zstandard.compress]


def pieces(content: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(content), size):
        yield content[start : start + size]


@settings(max_examples=100)
@given(st.lists(st.tuples(st.binary(max_size=99), st.sampled_from([1, 700])), max_size=4),
       st.sampled_from([gzip.compress, zstandard.compress]), st.integers(1, 300))  # fmt: skip
def test_unpacks_members_and_frames(parts: list[tuple[bytes, int]], pack: Pack, size: int) -> None:
    whole = [b"a" + part * times for part, times in parts]
    packed = b"".join(map(pack, whole))
    assert b"".join(unpack_text(pieces(packed, size))) == b"".join(whole)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_refuses_packed_input_that_is_cut_off(pack: Pack) -> None:
    packed = pack(b"a line\n" * 50 + bytes(range(1, 256)))
    for end in range(4, len(packed)):
        with pytest.raises(DamagedError, match="is damaged or cut off; pack it again"):
            list(unpack_text(pieces(packed[:end], 50)))


@pytest.mark.parametrize("size", [1, 5, 300])
def test_zstd_frames_to_skip_are_skipped(size: int) -> None:
    comment = struct.pack("<II", 0x184D2A5F, 3) + b"abc"  # RFC 8878, 3.1.2; pzstd writes them
    packed = b"".join([comment, zstandard.compress(b"a\n"), comment, zstandard.compress(b"b\n")])
    assert b"".join(unpack_text(pieces(packed, size))) == b"a\nb\n"


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_what_expands_hugely_comes_in_small_pieces(pack: Pack) -> None:
    packed = pack(bytes(2**28))
    assert len(packed) < 2**19
    tracemalloc.start()
    sizes = [len(piece) for piece in unpack_text(pieces(packed, 2**18))]
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (sum(sizes), max(sizes) <= 2**18) == (2**28, True)
    assert most < 2**27


def with_long_window(content: bytes, times: int) -> bytes:
    options = zstandard.ZstdCompressionParameters.from_level(1, window_log=31)
    packer = zstandard.ZstdCompressor(compression_params=options).compressobj()
    return b"".join([*(packer.compress(content) for _ in range(times)), packer.flush()])


def test_a_long_window_is_no_bomb(monkeypatch: pytest.MonkeyPatch) -> None:
    dump = with_long_window(b"a line of a dump\n", 1000)
    assert len(b"".join(unpack_text(pieces(dump, 100)))) == 17_000
    monkeypatch.setattr("newsift.files.read.ZSTD_WINDOW_BYTES", 2**22)
    bomb = with_long_window(bytes(2**22), 8)
    with pytest.raises(DamagedError, match="unpacks to 100 times its size or more"):
        list(unpack_text(pieces(bomb, 1000)))


@pytest.mark.parametrize(
    "encoding", ["utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32"], ids=str
)
@pytest.mark.parametrize("pack", PACKERS)
def test_utf_16_becomes_utf_8(encoding: str, pack: Pack) -> None:
    text = "id,text\n1,naïve 😀\n" * 9
    for size in (1, 3, 1000):
        result = b"".join(unpack_text(pieces(pack(text.encode(encoding)), size)))
        assert result.decode() == text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.csv", "a.jsonl.gz", "sub/c.PARQUET", "sub/d.txt.zst", ".hidden.csv", "e.md",
                 ".git/f.json", "g"):  # fmt: skip
        file = tmp_path / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"x")
    return tmp_path / "data"


def test_a_folder_stands_for_its_files(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    files = [str(file.relative_to(folder)) for file in find_files([folder])]
    assert files == ["a.jsonl.gz", "b.csv", "sub/c.PARQUET", "sub/d.txt.zst"]


@pytest.mark.parametrize(
    "pattern",
    ["**", "**/*.csv", "sub/**", "**/sub/*", "**/d*", "*/**/c*", "s**/*", "**.csv", "**/.git/*"],
)
def test_a_pattern_means_what_python_s_own_does(folder: Path, pattern: str) -> None:
    (folder / "sub" / "deep").mkdir()
    (folder / "sub" / "deep" / "d.csv").write_bytes(b"x")
    whole = str(folder / pattern)
    expected = {Path(path) for path in glob.glob(whole, recursive=True)}  # noqa: PTH207
    files = {Path(path) for path in glob_files(whole) if Path(path).is_file()}
    assert files == {path for path in expected if path.is_file()}


def test_refuses_a_pattern_or_folder_without_files(folder: Path) -> None:
    with pytest.raises(InputError, match="there is no such file; fix the pattern"):
        find_files([folder / "*.xlsx"])
    (folder / "empty").mkdir()
    with pytest.raises(InputError, match="holds no file of posts"):
        find_files([folder / "empty"])
