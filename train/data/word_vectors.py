"""Pre-trained word vectors, read line by line: GloVe text and word2vec text, gzip or plain."""

import gzip
import zlib
from array import array
from collections import Counter
from collections.abc import Container, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from encoder.errors import InputError
from encoder.model.weights import F32

GZIP_MAGIC = b"\x1f\x8b"
SAMPLE_LINES = 100
LARGEST = float(np.finfo(np.float32).max)


class Vectors(NamedTuple):
    """Words with a vector each, and the numbers (from 1) of the lines that were passed over."""

    words: list[str]
    values: F32  # [words, dim]
    bad_lines: list[int]


def read_vectors(
    path: str | Path,
    dim: int | None = None,
    limit: int | None = None,
    keep: Container[str] | None = None,
) -> Vectors:
    """The first `limit` vectors of a file, or of those of its words that are in `keep`.

    A malformed line, or a second one for the same word, is passed over and reported by its number.
    """
    words: dict[str, None] = {}
    values = array("f")
    bad: list[int] = []
    good = 0
    with opened(path) as file:
        found, lines = body(file)
        if dim not in (None, found):
            raise InputError(f"{path}: dim {found}, expected {dim}; name the file of that dim")
        for number, line in lines:
            if len(words) == limit:
                break
            word, vector = parsed(line, found)
            if not vector or word in words:
                bad.append(number)
                continue
            good += 1
            if keep is None or word in keep:
                words[word] = None
                values.extend(vector)
    if not good and limit != 0:
        raise InputError(f"{path}: no line is a word and its numbers; use GloVe or word2vec text")
    return Vectors(list(words), np.array(values, np.float32).reshape(-1, max(found, 1)), bad)


@contextmanager
def opened(path: str | Path) -> Iterator[IO[bytes]]:
    """The file, unpacked if it is gzip; one that is missing or cut off is refused."""
    try:
        with Path(path).open("rb") as plain:
            packed = plain.peek(2)[:2] == GZIP_MAGIC
            with gzip.open(plain) if packed else plain as file:
                yield file  # type: ignore[misc]
    except (OSError, EOFError, zlib.error) as fault:
        raise InputError(f"{path}: cannot be read to its end ({fault}); fetch it again") from fault


def body(file: IO[bytes]) -> tuple[int, Iterator[tuple[int, bytes]]]:
    """How many numbers a line holds, and the numbered lines that follow word2vec's header, if any.

    Without a header the first lines vote, as any one of them may be malformed.
    """
    sample = list(islice(file, SAMPLE_LINES))
    lines = enumerate(chain(sample, file), 1)
    header = sample[0].split() if sample else []
    if len(header) == 2 and all(map(bytes.isdigit, header)):
        next(lines)
        return int(header[1]), lines
    votes = Counter(filter(None, map(count_numbers, sample)))
    return votes.most_common(1)[0][0] if votes else 0, lines


def count_numbers(line: bytes) -> int:
    """How many numbers stand at the end of a line, after at least one field for the word."""
    fields = line.split()
    for count, field in enumerate(reversed(fields[1:])):
        try:
            float(field)
        except ValueError:
            return count
    return len(fields[1:])


def parsed(line: bytes, dim: int) -> tuple[str, list[float]]:
    """The word of a line and its vector; an empty vector if the line is malformed.

    Taken from the right, as some words of GloVe hold spaces.
    """
    try:
        word, *fields = line.decode().rstrip().rsplit(" ", dim)
        vector = list(map(float, fields))
    except ValueError:
        return "", []
    sound = word and len(vector) == dim and all(-LARGEST <= value <= LARGEST for value in vector)
    return word, vector if sound else []
