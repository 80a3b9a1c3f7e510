"""A news site with a feed: what it answers is set by a test, and what it was asked is kept.

HTTP as https://www.rfc-editor.org/rfc/rfc9110 has it: conditional requests (§13), 301, 304, 410
and 429 (RFC 6585) with Retry-After (§10.2.3).
"""

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.worker.command_topics import SEEDS, Kafka
from tests.worker.fake_web_server import Handler, Server

WORDS = (
    "The ferry {name} burns off Port Maren since dawn, and nine people are missing. The coast "
    "guard searches with two boats and a helicopter, said its spokeswoman on the quay. Smoke "
    "stood over the harbour until noon, when the crew gave up the car deck for lost. "
)
PAGE = """<!doctype html><html><head><title>{title}</title>
<meta property="og:title" content="{title}"></head><body><nav><a href="/">Home</a></nav>
<article><h1>{title}</h1><p>{text}</p><p>{more}</p></article></body></html>"""


@dataclass
class Reply:
    body: bytes = b""
    kind: str = "text/html; charset=utf-8"
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)


def page(name: str, more: str = "") -> Reply:
    text = WORDS.format(name=name) * 2
    return Reply(PAGE.format(title=f"Fire on the {name}", text=text, more=more or text).encode())


def feed(*items: str, head: str = "", **headers: str) -> Reply:
    channel = f"<channel><title>News</title>{head}{''.join(items)}</channel>"
    body = f'<?xml version="1.0"?><rss version="2.0">{channel}</rss>'.encode()
    return Reply(body, "application/rss+xml", headers=headers)


def item(link: str, title: str = "", days: float = 0, said: str = "") -> str:
    at = datetime.now(UTC) - timedelta(days=days)
    return (
        f"<item><title>{title or link}</title><link>{link}</link><description>{said}</description>"
        f"<pubDate>{at:%a, %d %b %Y %H:%M:%S} GMT</pubDate></item>"
    )


class Site(Server):
    """Answers by path, 404 for what is not set; a 304 where the ETag or the date still holds."""

    def __init__(self) -> None:
        super().__init__(Replies)
        self.replies: dict[str, Reply] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []

    def paths(self) -> list[str]:
        """What was asked for, but robots.txt, since this was called last."""
        requests, self.asked = self.asked, []
        return [path for path, _ in requests if path != "/robots.txt"]


class Replies(Handler):
    server: Site

    def do_GET(self) -> None:
        self.server.asked.append((self.path, dict(self.headers)))
        reply = self.server.replies.get(self.path, Reply(status=404))
        held = {"If-None-Match": "ETag", "If-Modified-Since": "Last-Modified"}
        same = (self.headers[ask] == reply.headers.get(tag, "") for ask, tag in held.items())
        status = 304 if any(same) and reply.status == 200 else reply.status
        self.send_response(status)
        self.send_header("Content-Type", reply.kind)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.end_headers()
        if status == 200:
            self.wfile.write(reply.body)


def seeds_of(kafka: Kafka) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for record in kafka.records(SEEDS):
        result[record.key.decode()] = json.loads(record.value) if record.value else None
    return result
