"""Ids for articles that come without a file's name."""

import re
from urllib.parse import urlsplit

from worker.visible import cut

LONGEST = 60  # characters
NAMELESS = "article"
WORD = re.compile(r"[^\W_]+")


def seed_id(title: str, url: str = "") -> str:
    """An id that people can read: out of the title, else out of the address."""
    parts = urlsplit(url)
    words = WORD.findall(title.lower())
    words = words or WORD.findall(f"{parts.hostname or ''} {parts.path}".lower()) or [NAMELESS]
    made = ""
    for word in words:
        if len(made) + len(word) >= LONGEST:
            break
        made += f"-{word}"
    return made.strip("-") or cut(words[0], LONGEST)
