import json
import os
import subprocess
from pathlib import Path

import pytest

from encoder.errors import InputError
from newsift.files.articles import WebPage, extract_article, extract_in_process
from newsift.files.subprocesses import run_in_subprocess
from tests.worker.fake_web_server import ARTICLE

URL = "http://news.test/ferry"
# The pattern by which the extractor looks for strings takes hours for these 49 KB.
BUSY = '<script type="application/ld+json">{"articleBody": "' + '\\"a' * 16_000
BUSY_PAGE = WebPage(URL, ARTICLE.replace("</head>", f"{BUSY}</script></head>").encode(), "utf-8")
PATIENCE_S = 60.0


def children() -> set[str]:
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())


def test_the_article_is_the_same_as_in_this_process() -> None:
    page = WebPage(URL, ARTICLE.encode("utf-8"), "utf-8")
    assert extract_article(page) == extract_in_process(page)


def test_ends_a_page_that_takes_for_ever() -> None:
    before = children()
    with pytest.raises(InputError, match=r"ferry: takes longer than 3 s to read; save the text"):
        extract_article(BUSY_PAGE, seconds=3.0)
    assert children() == before


@pytest.mark.slow
def test_a_reader_without_its_parent_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the command be killed, nobody is there to end what it started."""
    given_to_us = subprocess.run

    def patient(*args: object, timeout: float, **kwargs: object) -> object:
        return given_to_us(*args, timeout=PATIENCE_S, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", patient)
    with pytest.raises(InputError, match="takes too much memory or time to read"):
        extract_article(BUSY_PAGE, seconds=1.0)


def test_ends_a_page_that_takes_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.files.subprocesses.MAX_MEMORY_BYTES", 2**27)
    body = b"<html><body>" + b"<p>nine people are missing</p>" * 2**17
    with pytest.raises(InputError, match="takes too much memory or time to read"):
        extract_article(WebPage(URL, body, None), seconds=PATIENCE_S)


def environment_of(_body: bytes, _name: str) -> dict[str, str]:
    return dict(os.environ)


def test_a_reader_of_strangers_bytes_has_no_secret_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NEWSIFT_KAFKA__PASSWORD", "NEWSIFT_DESK__TOKEN", "HTTPS_PROXY", "HOME", "LANG",
                 "TMPDIR", "LD_LIBRARY_PATH"):  # fmt: skip
        monkeypatch.setenv(name, "/tmp")
    kept = json.loads(run_in_subprocess(environment_of, b"", "x"))
    kept.pop("LC_CTYPE", None)  # Python's own, where the locale is C
    assert kept.keys() == {"PATH", "LANG", "TMPDIR", "LD_LIBRARY_PATH"}
