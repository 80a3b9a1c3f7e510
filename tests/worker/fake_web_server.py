"""Web servers: what they answer is set by a test, and what they were asked is kept.

HTTP as https://www.rfc-editor.org/rfc/rfc9110 has it: conditional requests (§13), 301, 304, 410
and 429 (RFC 6585) with Retry-After (§10.2.3).
"""

import gzip
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, BaseServer
from typing import TypeVar

SENTENCE = "The ferry Astrid Vane burns off Port Maren, and nine people are missing since dawn. "
ARTICLE = f"""<!doctype html><html><head><title>Fire on the ferry</title>
<meta property="og:title" content="Fire on the ferry"></head>
<body><nav><a href="/">Home</a> <a href="/x">Sport</a></nav><article><h1>Fire on the ferry</h1>
<p>{SENTENCE * 4}</p><p>Café owners on the pier saw it. {SENTENCE * 4}</p></article>
<footer>All rights reserved</footer></body></html>"""


class Server(ThreadingHTTPServer):
    """A server on a port of this machine that says nothing."""

    daemon_threads = True

    def __init__(self, handler: type[BaseRequestHandler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A client that has had enough is what the tests are about."""


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


S = TypeVar("S", bound=BaseServer)


@contextmanager
def serving(server: S) -> Iterator[S]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@dataclass
class Reply:
    """What a site answers; a body in parts has no length."""

    body: bytes | Sequence[bytes] = b""
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


class Site(Server):
    """Answers by path, 404 for what is not set; a 304 where the ETag or the date still holds."""

    def __init__(self, replies: Mapping[str, Reply] | None = None) -> None:
        super().__init__(Replies)
        self.replies = dict(replies or {})
        self.asked: list[tuple[str, dict[str, str]]] = []

    def paths(self) -> list[str]:
        """What was asked for, but robots.txt, since this was called last."""
        requests, self.asked = self.asked, []
        return [path for path, _ in requests if path != "/robots.txt"]


class Replies(Handler):
    protocol_version = "HTTP/1.1"
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        reply = self.server.replies.get(self.path, Reply(status=404))
        held = {"If-None-Match": "ETag", "If-Modified-Since": "Last-Modified"}
        same = (self.headers[ask] == reply.headers.get(tag, "") for ask, tag in held.items())
        status = 304 if any(same) and reply.status == 200 else reply.status
        parts = [reply.body] if isinstance(reply.body, bytes) else reply.body
        headers = {"Content-Type": reply.kind, "Connection": "close"}
        if isinstance(reply.body, bytes) and "Transfer-Encoding" not in reply.headers:
            headers["Content-Length"] = str(len(reply.body) if status == 200 else 0)
        self.send_response(status)
        for name, value in (headers | dict(reply.headers)).items():
            self.send_header(name, value)
        self.end_headers()
        for part in parts if status == 200 else ():
            self.wfile.write(part)


def moved(there: str) -> Reply:
    return Reply(status=302, headers={"Location": there})


def packed(body: bytes, coding: str = "gzip") -> Reply:
    return Reply(body, headers={"Content-Encoding": coding})


CHUNKS = [ARTICLE[start : start + 500].encode() for start in range(0, len(ARTICLE), 500)]
PAGES = {
    "/article": Reply(ARTICLE.encode()),
    "/gzip": packed(gzip.compress(ARTICLE.encode())),
    "/chunked": Reply(
        [*(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in CHUNKS), b"0\r\n\r\n"],
        headers={"Transfer-Encoding": "chunked"},
    ),
    "/latin": Reply(ARTICLE.encode("latin-1"), "text/html; charset=ISO-8859-1"),
    "/meta": Reply(
        ARTICLE.replace("<head>", '<head><meta charset="windows-1252">').encode("cp1252"),
        "text/html",
    ),
    "/menu": Reply(b"<html><body><p>Please accept our cookies.</p></body></html>"),
    "/pdf": Reply(b"%PDF-1.4", "application/pdf"),
    "/pdf-as-html": Reply(b"%PDF-1.4"),
    "/redirect-to-file": moved("file:///etc/hostname"),
    "/brotli": packed(b"\x0b\x02\x80", "br"),
    "/bomb": packed(gzip.compress(b"<html>" + b" " * 2**24)),
    "/broken": packed(b"no gzip at all"),
    "/cut": Reply(b"<html>", headers={"Content-Length": "5000"}),
    "/cut-gzip": packed(gzip.compress(ARTICLE.encode())[:-20]),
    "/endless": Reply([b"<p>more</p>" * 10_000] * 10_000),
    "/loop": moved("/loop"),
    "/hop/1": Reply(status=301, headers={"Location": "/article"}),
    **{f"/hop/{n}": Reply(status=301, headers={"Location": f"/hop/{n - 1}"}) for n in range(2, 6)},
    "/inside": moved("http://inside.test/"),
}


@contextmanager
def answering(raw: bytes) -> Iterator[str]:
    """The address of a server that answers whatever it is asked with these bytes."""

    class Answer(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(2**16)
            self.request.sendall(raw)

    with serving(Server(Answer)) as server:
        yield f"127.0.0.1:{server.server_port}"


@contextmanager
def dripping(head: bytes) -> Iterator[tuple[int, threading.Event]]:
    """The port of a server whose answer never ends, and whether its client has hung up."""
    broken = threading.Event()

    class Drip(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                self.request.sendall(head)
                while not broken.wait(0.01):
                    self.request.sendall(b"x")
            broken.set()

    with serving(Server(Drip)) as server:
        yield server.server_port, broken
