"""The readers of word vectors, on the real fragment of GloVe and on files with every fault."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from encoder.errors import InputError
from train.data.word_vectors import read_vectors

GLOVE = "the 0.1 -0.2 3e-1\n. . . 1 2 3\nCafé 4 5 6\n\x85 7 8 9\n"
WORD2VEC = "4 3\n" + GLOVE.replace("\n", " \n")
WORDS = ["the", ". . .", "Café", "\x85"]
VALUES = np.array([[0.1, -0.2, 0.3], [1, 2, 3], [4, 5, 6], [7, 8, 9]], np.float32)


def write(folder: Path, content: str | bytes, packed: bool = False) -> Path:
    data = content.encode() if isinstance(content, str) else content
    file = folder / "vectors"
    file.write_bytes(gzip.compress(data) if packed else data)
    return file


@pytest.mark.parametrize("content", [GLOVE, WORD2VEC])
@pytest.mark.parametrize("packed", [False, True])
def test_both_formats_are_read_plain_and_packed(tmp_path: Path, content: str, packed: bool) -> None:
    read = read_vectors(write(tmp_path, content, packed), dim=3)
    assert read.words == WORDS
    assert read.values.dtype == np.float32
    np.testing.assert_array_equal(read.values, VALUES)
    assert read.bad_lines == []


def test_the_real_fragment_of_glove(shared: Path) -> None:
    file = shared / "data" / "glove.6B.100d.top2604.txt.gz"
    read = read_vectors(file)
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    assert read.words == [line.split(" ")[0] for line in lines]
    assert len(read.words) == 2604
    expected = np.array([line.split(" ")[1:] for line in lines]).astype(np.float32)
    np.testing.assert_array_equal(read.values, expected)


@pytest.mark.parametrize(
    "bad",
    [
        b"short 1 2",
        b"long 1 2 3 x",
        b"word a b c",
        b"",
        b" 1 2 3",
        b"nan 1 2 nan",
        b"infinite 1 2 inf",
        b"huge 1 2 1e39",
        b"\xff\xfe 1 2 3",
        b"the 1 2 3",
        b"lonely",
    ],
)
@pytest.mark.parametrize("header", [b"", b"9 3\n"])
def test_a_malformed_line_is_reported_by_its_number(
    tmp_path: Path, bad: bytes, header: bytes
) -> None:
    body = b"the 1 2 3\nof 4 5 6\n%s\nto 7 8 9\nand 1 1 1\n%s\n" % (bad, bad)
    read = read_vectors(write(tmp_path, header + body))
    assert read.words == ["the", "of", "to", "and"]
    assert read.values.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 1]]
    assert read.bad_lines == [number + bool(header) for number in (3, 6)]


def test_a_malformed_first_line_does_not_decide_the_dim(tmp_path: Path) -> None:
    read = read_vectors(write(tmp_path, "the 1\n" + GLOVE.removeprefix("the")))
    assert read.values.shape == (3, 3)
    assert read.bad_lines == [1, 2]


def test_limit_and_keep(tmp_path: Path) -> None:
    file = write(tmp_path, WORD2VEC)
    assert read_vectors(file, limit=2).words == WORDS[:2]
    assert read_vectors(file, limit=0).values.shape == (0, 3)
    assert read_vectors(file, keep={"the", "\x85", "else"}).words == ["the", "\x85"]
    assert read_vectors(file, limit=1, keep={"Café", "\x85"}).values.tolist() == [[4, 5, 6]]
    assert read_vectors(file, keep={"else"}).values.shape == (0, 3)


def test_reading_stops_at_the_limit(tmp_path: Path) -> None:
    many = "".join(f"w{i} 1 2 3\n" for i in range(500))
    assert len(read_vectors(write(tmp_path, many + "bad\n"), limit=500).words) == 500
    assert read_vectors(write(tmp_path, many + "bad\n"), limit=500).bad_lines == []
    assert read_vectors(write(tmp_path, many + "bad\n"), limit=501).bad_lines == [501]


@pytest.mark.parametrize(
    ("content", "dim", "fault"),
    [
        ("", None, "no line"),
        ("hello\nworld\n", None, "no line"),
        ("2 3\nbad 1\n", None, "no line"),
        ("2 0\na\n", None, "no line"),
        (GLOVE, 4, "dim 3, expected 4"),
        (WORD2VEC, 300, "dim 3, expected 300"),
        (gzip.compress(GLOVE.encode(), mtime=0)[:-9], None, "fetch it again"),
    ],
)
def test_a_file_of_something_else_is_refused(
    tmp_path: Path, content: str | bytes, dim: int | None, fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        read_vectors(write(tmp_path, content), dim)


def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(InputError, match=r"cannot be read"):
            read_vectors(path)
