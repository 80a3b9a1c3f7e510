"""Pre-trained word vectors, read line by line: GloVe text and word2vec text, gzip or plain."""

import gzip
import re
import zlib
from array import array
from pathlib import Path

import numpy as np

from encoder.errors import InputError
from encoder.model.weights import F32

GZIP_MAGIC = b"\x1f\x8b"
NUMBER = re.compile(r"[-+]?[0-9]*\.?[0-9]+(e[-+]?[0-9]+)?")
LARGEST = float(np.finfo(np.float32).max)


def read_vectors(path: Path, dim: int, most: int) -> tuple[list[str], F32]:
    """The first words of a file, so many at most, each with its vector: [words, dim].

    A malformed line, or a second one for the same word, is passed over.
    """
    words: dict[str, None] = {}
    values = array("f")
    try:
        with path.open("rb") as plain:
            packed = plain.peek(2)[:2] == GZIP_MAGIC
            with gzip.open(plain) if packed else plain as lines:
                for line in lines:
                    if len(words) == most:
                        break
                    word, vector = parsed(line, dim)
                    if vector and word not in words:
                        words[word] = None
                        values.extend(vector)
    except (OSError, EOFError, zlib.error) as fault:
        raise InputError(f"{path}: cannot be read to its end ({fault}); fetch it again") from fault
    if not words:
        raise InputError(f"{path}: no line is a word and {dim} numbers; name the file of that dim")
    return list(words), np.array(values, np.float32).reshape(-1, dim)


def parsed(line: bytes, dim: int) -> tuple[str, list[float]]:
    """The word of a line and its vector; an empty vector if the line is malformed.

    Taken from the right, as some words of GloVe hold spaces; a number before the vector is one of
    a longer vector.
    """
    try:
        word, *fields = line.decode().rstrip().rsplit(" ", dim)
        vector = list(map(float, fields))
    except ValueError:
        return "", []
    longer = " " in word and NUMBER.fullmatch(word.rpartition(" ")[2])
    sound = word and not longer and len(vector) == dim
    return word, vector if sound and all(abs(value) <= LARGEST for value in vector) else []
