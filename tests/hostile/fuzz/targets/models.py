"""Model directories: a model that embeds, or refused by name; the digests are made to fit."""

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import encoder
from encoder.errors import NewsiftError
from encoder.model_directory import ARTICLE_CHECK, MANIFEST, digest_of, facts_of, write_model
from tests.encoder.small import small_model
from tests.hostile.fuzz.target import Target

TOKENS = [
    *(b'"dtype":', b'"F32"', b'"F64"', b'"I8"', b'"I64"', b'"shape":', b'"data_offsets":', b"1"),
    *(b"null", b"{}", b"-1", b"1e999", b"NaN", b'"config":', b'"dim":', b'"files":', b"true", b"0"),
    *(b"\xff" * 8, b"\x00" * 8, b"\x00\x00\xc0\x7f", b"\n", b"##", b"[]", b"9" * 400, b"../"),
]


def opened() -> Target:
    """A directory of which one file is damaged, and whose manifest vouches for it all the same.

    An input is the number of a file, as one byte, and the content of that file.
    """
    folder = Path(tempfile.mkdtemp()) / "model"
    write_model(folder, small_model())
    contents = {file.name: file.read_bytes() for file in sorted(folder.iterdir())}
    names = list(contents)

    def feed(data: bytes) -> bool:
        name = names[data[0] % len(names)] if data else MANIFEST
        changed = {name: data[1:]}
        if name != MANIFEST:
            changed[MANIFEST] = vouched(json.loads(contents[MANIFEST]), changed)
        try:
            for each, content in changed.items():
                (folder / each).write_bytes(content)
            embeds(folder)
        except NewsiftError as error:
            return refused_in_a_line(error)
        finally:
            for each in changed:
                (folder / each).write_bytes(contents[each])
        return True

    corpus = [bytes([n]) + contents[name] for n, name in enumerate(names)]
    return Target(corpus, TOKENS, feed, ms_per_kb=400, largest=2**18)


def refused_in_a_line(error: NewsiftError) -> bool:
    assert str(error).isprintable(), str(error)
    return False


def vouched(manifest: dict[str, Any], changed: dict[str, bytes]) -> bytes:
    manifest["checks" if ARTICLE_CHECK in changed else "files"].update(facts_of(changed))
    return json.dumps(manifest | {"digest": digest_of(manifest)}).encode()


def embeds(folder: Path) -> None:
    enc = encoder.load(folder, device="cpu", threads=1)
    articles = enc.articles(["storm flood river city", ("Fire", "police fire in the city")])
    scores = enc.posts(["the storm and the flood", "", "cat"]).similarity(articles)
    assert (np.abs(scores) <= 1.001).all()
    enc.thresholds(articles, rate=0.01)
    enc.explain("the storm and the flood", articles, 0)
