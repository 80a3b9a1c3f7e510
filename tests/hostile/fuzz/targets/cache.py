"""Files of the cache of seeds: taken or left out with a warning, and a set is made either way."""

import hashlib
import logging
import shutil
import tempfile
from pathlib import Path

from tests.hostile.fuzz.target import Target
from tests.worker.small import ARTICLES, book_of, small_encoder
from worker.seeds.embedder import SeedEmbedder

RATE = 0.01
TOKENS = [
    *(b'"dtype":', b'"F32"', b'"U8"', b'"I64"', b'"BF16"', b'"shape":', b'"data_offsets":'),
    *(b"[9223372036854775807]", b"[-1]", b'"__metadata__":', b'"dense"', b'"lexical.indptr"', b"{"),
    *(b"\xff" * 8, b"\x00" * 8, b"\x00\x00\xc0\x7f", b"\x00\x00\x80\x7f", b"[0,0]"),
]  # fmt: skip


def opened() -> Target:
    """A folder with one file, under the name that its content calls for."""
    enc, book = small_encoder(), book_of(**{n: {"text": t} for n, t in ARTICLES.items()})
    folder = Path(tempfile.mkdtemp())
    logging.getLogger("newsift.seeds").disabled = True
    SeedEmbedder(enc, folder, RATE, None).make(book)
    (good,) = folder.iterdir()
    prefix, content = good.name.rsplit("-", 1)[0], good.read_bytes()

    def feed(data: bytes) -> bool:
        shutil.rmtree(folder)
        folder.mkdir()
        named = folder / f"{prefix}-{hashlib.sha256(data).hexdigest()[:24]}.safetensors"
        named.write_bytes(data)
        made = SeedEmbedder(enc, folder, RATE, None).make(book)
        assert len(made) + len(made.refused) == len(ARTICLES)
        return named.exists()

    return Target([content], TOKENS, feed, ms_per_kb=60)
