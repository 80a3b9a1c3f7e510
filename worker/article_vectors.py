"""The vectors of articles on disk: a transformer takes a tenth of a second for each of them."""

import hashlib
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from encoder.embeddings import Embeddings
from encoder.encoder import Encoder
from encoder.errors import InputError
from encoder.support.files import cache_root, private_folder
from encoder.text.clean import Article

MAX_FILES = 50_000  # of some 4 KB
SUFFIX = ".safetensors"
log = logging.getLogger("newsift.encoder")


def open_folder() -> Path | None:
    """The folder of vectors in the cache; None where none of one's own can be made."""
    try:
        folder = private_folder(cache_root()) / "articles"
        folder.mkdir(mode=0o700, exist_ok=True)
        private_folder(folder)
        remove_oldest(folder)
    except (OSError, InputError) as error:
        log.debug("vectors of articles are not kept: %s", error)
        return None
    return folder


def remove_oldest(folder: Path) -> None:
    """Beyond so many files, remove those used longest ago."""
    files = [entry for entry in os.scandir(folder) if entry.name.endswith(SUFFIX)]
    if len(files) <= MAX_FILES:
        return
    for entry in sorted(files, key=lambda entry: -entry.stat().st_mtime)[MAX_FILES:]:
        with suppress(OSError):  # another process removes it, too
            Path(entry.path).unlink()


class ArticleVectors:
    """Embeds articles; one that was embedded before, by this model and runtime, is not read again.

    Another version of the runtime, or another processor, may give other bits. A file that cannot be
    read counts as missing. Where none can be written, nothing is kept.
    """

    def __init__(self, enc: Encoder, folder: Path | None) -> None:
        self._enc, self._folder = enc, folder if enc.has_star else None
        self._written = 0  # files, since the oldest were removed
        self._reader: tuple[str, ...] = ()  # model and runtime
        if self._folder is not None:
            runtime = "onnxruntime" if enc.path == "onnx" else "torch"
            self._reader = enc.digest, enc.path, repr(enc.error), version(runtime)

    def embed(self, articles: Sequence[Article]) -> Embeddings:
        if self._folder is None:
            return self._enc.articles(articles)
        paths = [self._path(self._folder, article) for article in articles]
        rows = {n: row for n, path in enumerate(paths) if (row := self._load(path)) is not None}
        missing = [n for n in range(len(paths)) if n not in rows]
        read = self._enc.articles([articles[n] for n in missing])
        for place, n in enumerate(missing):
            rows[n] = read[place : place + 1]
            with suppress(InputError):
                rows[n].save(paths[n])
        self._written += len(missing)
        if self._written > MAX_FILES // 50:  # a worker that runs for months meets many articles
            self._written = 0
            with suppress(OSError):
                remove_oldest(self._folder)
        return Embeddings.concat([rows[n] for n in range(len(paths))] or [read])

    def _path(self, folder: Path, article: Article) -> Path:
        texts = (article,) if isinstance(article, str) else article
        digest = hashlib.sha256()
        for part in (*self._reader, *texts):
            content = part.encode("utf-8", "surrogatepass")
            digest.update(len(content).to_bytes(8, "little") + content)
        return folder / f"{digest.hexdigest()}{SUFFIX}"

    def _load(self, path: Path) -> Embeddings | None:
        try:
            row = Embeddings.load(path)
        except InputError:
            return None
        with suppress(OSError):
            os.utime(path)
        own = self._enc.digest, self._enc.mix, 1, self._enc.dim, False
        return row if (row.digest, row.mix, *row.dense.shape, row.skimmed) == own else None
