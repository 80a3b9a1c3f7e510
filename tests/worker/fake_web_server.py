"""A web server that does to a client what some servers do."""

import gzip
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TypeVar

SENTENCE = "The ferry Astrid Vane burns off Port Maren, and nine people are missing since dawn. "
ARTICLE = f"""<!doctype html><html><head><title>Fire on the ferry</title>
<meta property="og:title" content="Fire on the ferry"></head>
<body><nav><a href="/">Home</a> <a href="/x">Sport</a></nav><article><h1>Fire on the ferry</h1>
<p>{SENTENCE * 4}</p><p>Café owners on the pier saw it. {SENTENCE * 4}</p></article>
<footer>All rights reserved</footer></body></html>"""
BOMB = gzip.compress(b"<html>" + b" " * 2**24)
HTML = "text/html; charset=utf-8"


class Server(ThreadingHTTPServer):
    """A server on a port of this machine that says nothing."""

    daemon_threads = True

    def __init__(self, handler: type["Handler"]) -> None:
        super().__init__(("127.0.0.1", 0), handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, *_: object) -> None:
        """A client that has had enough is what the tests are about."""


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""


S = TypeVar("S", bound=Server)


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


class Pages(Handler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.split("?")[0].strip("/").partition("/")[0] or "article"
        getattr(self, f"page_{name.replace('-', '_')}", self.page_gone)()

    def page_article(self) -> None:
        self.say(ARTICLE.encode())

    def page_gzip(self) -> None:
        self.say(gzip.compress(ARTICLE.encode()), coding="gzip")

    def page_chunked(self) -> None:
        self.head(HTML, transfer_encoding="chunked")
        for start in range(0, len(ARTICLE), 500):
            part = ARTICLE[start : start + 500].encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
        self.wfile.write(b"0\r\n\r\n")

    def page_latin(self) -> None:
        self.say(ARTICLE.encode("latin-1"), kind="text/html; charset=ISO-8859-1")

    def page_meta(self) -> None:
        named = ARTICLE.replace("<head>", '<head><meta charset="windows-1252">')
        self.say(named.encode("cp1252"), kind="text/html")

    def page_menu(self) -> None:
        self.say(b"<html><body><p>Please accept our cookies.</p></body></html>")

    def page_pdf(self) -> None:
        self.say(b"%PDF-1.4", kind="application/pdf")

    def page_pdf_as_html(self) -> None:
        self.say(b"%PDF-1.4")

    def page_redirect_to_file(self) -> None:
        self.head(HTML, status=302, location="file:///etc/hostname", content_length="0")

    def page_drip_head(self) -> None:
        for _ in range(40):
            self.wfile.write(b"H")
            self.wfile.flush()
            time.sleep(0.05)

    def page_brotli(self) -> None:
        self.say(b"\x0b\x02\x80", coding="br")

    def page_bomb(self) -> None:
        self.say(BOMB, coding="gzip")

    def page_broken(self) -> None:
        self.say(b"no gzip at all", coding="gzip")

    def page_cut(self) -> None:
        self.head(HTML, content_length="5000")
        self.wfile.write(b"<html>")

    def page_cut_gzip(self) -> None:
        self.say(gzip.compress(ARTICLE.encode())[:-20], coding="gzip")

    def page_endless(self) -> None:
        self.head(HTML)
        with_pause = b"<p>more</p>" * 10_000
        for _ in range(10_000):
            self.wfile.write(with_pause)

    def page_loop(self) -> None:
        self.head(HTML, status=302, location=self.path, content_length="0")

    def page_hop(self) -> None:
        left = int(self.path.split("/")[2])
        there = "/article" if left == 1 else f"/hop/{left - 1}"
        self.head(HTML, status=301, location=there, content_length="0")

    def page_inside(self) -> None:
        self.head(HTML, status=302, location="http://inside.test/", content_length="0")

    def page_host(self) -> None:
        self.say((self.headers["Host"] or "").encode(), kind="text/plain")

    def page_gone(self) -> None:
        self.head(HTML, status=404, content_length="0")

    def say(self, body: bytes, kind: str = HTML, coding: str | None = None) -> None:
        self.head(kind, content_length=str(len(body)), content_encoding=coding or "")
        self.wfile.write(body)

    def head(self, kind: str, status: int = 200, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        for name, value in headers.items():
            if value:
                self.send_header(name.replace("_", "-").title(), value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True


@contextmanager
def web_server() -> Iterator[int]:
    with serving(Server(Pages)) as server:
        yield server.server_port
