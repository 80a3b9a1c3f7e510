"""Pages of the web: an article, or none, within bounds of time and memory whatever they hold."""

import json
import os
import resource
from dataclasses import asdict
from typing import Any

import trafilatura

from encoder.errors import InputError
from newsift.files.articles import WebPage, extract_in_process
from newsift.files.subprocesses import MAX_MEMORY_BYTES
from tests.hostile.fuzz.target import Target
from tests.worker.fake_web_server import ARTICLE

URL = "http://news.test/ferry"
CPU_S = 2
TAKEN, REFUSED = 0, 1
TOKENS = [
    b"<p>", b"</p>", b"<div>", b"<article>", b"<script>", b"<!--", b"-->", b"<![CDATA[",
    b"<title>", b'<script type="application/ld+json">', b'{"articleBody": "', b'\\"a',
    b"</script>", b"<html>", b"&#x110000;", b"&amp;", b"&nbsp", b"<meta charset=", b"utf-16",
    b"<base href=", b"<a href='", b"<", b">", b'"', b"'", b"\x00", b"\xff\xfe", b"\xef\xbb\xbf",
    b"\x1b[2J", b"<table>", b"<br", b"<svg><style>", b"<b>" * 50, "\u202e".encode(), b"x" * 1000,
    b"\n", b"<?xml", b"<!DOCTYPE",
]  # fmt: skip


def opened() -> Target:
    assert trafilatura.__name__  # imported here, so that no child has to
    page = ARTICLE.encode()
    head, _, body = page.partition(b"<body>")
    corpus = [page, head, body, ARTICLE.encode("utf-16"), b"<p>cookies</p>"]

    def feed(data: bytes) -> bool:
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            os._exit(read(data, writer))
        os.close(writer)
        with os.fdopen(reader, "rb") as answer:
            content = answer.read()
        _, code, _ = os.wait4(child, 0)
        if code != TAKEN:
            return False  # refused, or ended as it cost too much: both are reported so
        check(json.loads(content))
        return True

    return Target(
        [data * times for data in corpus for times in (1, 3)], TOKENS, feed, ms_per_kb=2500
    )


def read(data: bytes, writer: int) -> int:
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
    resource.setrlimit(resource.RLIMIT_AS, (8 * MAX_MEMORY_BYTES, 8 * MAX_MEMORY_BYTES))
    try:
        result = asdict(extract_in_process(WebPage(URL, data, None)))
    except InputError as error:
        return REFUSED if str(error) else TAKEN
    except Exception:  # noqa: BLE001 - as in the command, where it takes too much memory or time to read
        return REFUSED
    with os.fdopen(writer, "wb") as answer:
        answer.write(json.dumps(result).encode())
    return TAKEN


def check(article: dict[str, Any]) -> None:
    assert article["text"].strip()
    assert article["title"].isprintable()
    assert article["url"] == URL
