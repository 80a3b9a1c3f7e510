"""The readers of word vectors, on the real fragment of GloVe and on files with every fault."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from encoder.errors import InputError
from train.data.word_vectors import read_vectors

GLOVE = "the 0.1 -0.2 3e-1\n. . . 1 2 3\nCafé 4 5 6\n\x85 7 8 9\n"
WORD2VEC = "4 3\n" + GLOVE.replace("\n", " \n")
MANY = 10_000
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
    words, values = read_vectors(write(tmp_path, content, packed), 3, MANY)
    assert words == WORDS
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, VALUES)


def test_the_real_fragment_of_glove(shared: Path) -> None:
    file = shared / "data" / "glove.6B.100d.top2604.txt.gz"
    words, values = read_vectors(file, 100, MANY)
    lines = gzip.decompress(file.read_bytes()).decode().splitlines()
    assert words == [line.split(" ")[0] for line in lines]
    assert len(words) == 2604
    expected = np.array([line.split(" ")[1:] for line in lines]).astype(np.float32)
    np.testing.assert_array_equal(values, expected)


@pytest.mark.parametrize(
    "bad",
    [
        b"short 1 2",
        b"long 1 2 3 x",
        b"longer 1 2 3 4",
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
def test_a_malformed_line_is_passed_over(tmp_path: Path, bad: bytes, header: bytes) -> None:
    body = b"the 1 2 3\nof 4 5 6\n%s\nto 7 8 9\nand 1 1 1\n%s\n" % (bad, bad)
    words, values = read_vectors(write(tmp_path, header + body), 3, MANY)
    assert words == ["the", "of", "to", "and"]
    assert values.tolist() == [[1, 2, 3], [4, 5, 6], [7, 8, 9], [1, 1, 1]]


def test_so_many_words_are_read_and_no_more(tmp_path: Path) -> None:
    assert read_vectors(write(tmp_path, WORD2VEC), 3, 2)[0] == WORDS[:2]


@pytest.mark.parametrize(
    ("content", "dim", "fault"),
    [
        ("", 3, "no line"),
        ("hello\nworld\n", 3, "no line"),
        ("2 3\nbad 1\n", 3, "no line"),
        (GLOVE, 4, "no line is a word and 4 numbers; name the file of that dim"),
        (GLOVE, 2, "no line is a word and 2 numbers; name the file of that dim"),
        (WORD2VEC, 300, "no line is a word and 300 numbers"),
        (gzip.compress(GLOVE.encode(), mtime=0)[:-9], 3, "fetch it again"),
    ],
)
def test_a_file_of_something_else_is_refused(
    tmp_path: Path, content: str | bytes, dim: int, fault: str
) -> None:
    with pytest.raises(InputError, match=fault):
        read_vectors(write(tmp_path, content), dim, MANY)


def test_a_missing_file_or_a_folder_is_refused(tmp_path: Path) -> None:
    for path in (tmp_path / "missing", tmp_path):
        with pytest.raises(InputError, match=r"cannot be read"):
            read_vectors(path, 3, MANY)
