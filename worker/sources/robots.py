"""robots.txt: what a site asks of programs that visit it (RFC 9309, and Crawl-delay)."""

import re
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, unquote, urlsplit

LARGEST = 512 * 2**10  # bytes; what comes after them does not count
LONGEST_DELAY = 600.0
MOST_RULES = 10_000  # of one program; the others do not count
SECONDS = re.compile(r"\d{1,9}(\.\d{1,6})?", re.ASCII)
EVERYONE = "*"
KEPT = "/%:@!$&'()*+,;=~?"


@dataclass(frozen=True, slots=True)
class Robots:
    """The rules of a site for one program: what it may read, and how fast."""

    rules: tuple[tuple[str, bool], ...] = ()  # path pattern, whether it allows
    delay: float = 0.0  # seconds between two requests

    @classmethod
    def read(cls, body: bytes, program: str) -> Self:
        """The rules in a file for the program of this name, or else those for everyone."""
        groups: dict[str, _Group] = {}
        naming: list[_Group] = []  # the groups that the lines stand in
        begun = False  # whether they have a rule, so that the next name opens others
        for key, value in _lines(body[:LARGEST]):
            if key == "user-agent":
                naming = naming if not begun else []
                begun = False
                naming.append(groups.setdefault(value.lower(), _Group([], [])))
            elif key in ("allow", "disallow", "crawl-delay"):
                begun = True
                for group in naming:
                    group.add(key, value)
        own = groups.get(program.lower()) or groups.get(EVERYONE) or _Group([], [])
        return cls(tuple(own.rules), max(own.delays, default=0.0))

    def allow(self, url: str) -> bool:
        """Whether an address may be read: the longest pattern decides, and of equals the milder."""
        parts = urlsplit(url)
        path = _spelt(parts.path or "/") + (f"?{_spelt(parts.query)}" if parts.query else "")
        fits = [(len(rule), allows) for rule, allows in self.rules if _fits(rule, path)]
        return max(fits, default=(0, True))[1]


@dataclass(frozen=True, slots=True)
class _Group:
    rules: list[tuple[str, bool]]
    delays: list[float]

    def add(self, key: str, value: str) -> None:
        if key == "crawl-delay":
            if SECONDS.fullmatch(value):
                self.delays.append(min(float(value), LONGEST_DELAY))
        elif value and len(self.rules) < MOST_RULES:
            self.rules.append((_spelt(value), key == "allow"))


def _lines(body: bytes) -> list[tuple[str, str]]:
    text = body.decode("utf-8-sig", "replace")
    pairs = (line.partition("#")[0].partition(":") for line in text.splitlines())
    return [(key.strip().lower(), value.strip()) for key, colon, value in pairs if colon]


def _spelt(path: str) -> str:
    """A path in one spelling, whichever of its characters were written as %XX."""
    return quote(unquote(path), safe=KEPT)


def _fits(rule: str, path: str) -> bool:
    """Whether a path begins as a pattern says: * is anything, $ at the end is the end."""
    ends = rule.endswith("$")
    first, *others = rule.removesuffix("$").split("*")
    if not path.startswith(first):
        return False
    at = len(first)
    last = others.pop() if ends and others else None
    for part in others:
        at = path.find(part, at)
        if at < 0:
            return False
        at += len(part)
    if last is not None:
        return len(path) - len(last) >= at and path.endswith(last)
    return not ends or at == len(path)
