"""The pages and the feed of a news site."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.worker.command_topics import SEEDS, Kafka
from tests.worker.fake_web_server import Reply

WORDS = (
    "The ferry {name} burns off Port Maren since dawn, and nine people are missing. The coast "
    "guard searches with two boats and a helicopter, said its spokeswoman on the quay. Smoke "
    "stood over the harbour until noon, when the crew gave up the car deck for lost. "
)
PAGE = """<!doctype html><html><head><title>{title}</title>
<meta property="og:title" content="{title}"></head><body><nav><a href="/">Home</a></nav>
<article><h1>{title}</h1><p>{text}</p><p>{more}</p></article></body></html>"""


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


def seeds_of(kafka: Kafka) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for record in kafka.records(SEEDS):
        result[record.key.decode()] = json.loads(record.value) if record.value else None
    return result
