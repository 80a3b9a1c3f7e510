"""Hostile texts in the terminal of an operator."""

import json
from unicodedata import category

import pytest

from tests.broker.clients import until
from tests.hostile.attack import attacked
from tests.hostile.target import ARTICLE, Target, post, seed
from tests.worker.fake import Command

STEERS = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e\u2066\x00\x7f"
COMMANDS = [
    "seeds list", "seeds list --json", "seeds show steers", "seeds show steers --json", "status",
    "status --json", "matches --no-follow", "matches --no-follow --json", "dead-letters list",
    "dead-letters list --json",
]  # fmt: skip


def test_no_text_steers_the_terminal_or_the_log(
    target: Target, newsift: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_CONFIG", str(target.config))
    said = f"steers {STEERS}"
    with attacked(target) as attack:
        more = {"title": said, "event": said, "url": f"https://a.example/{STEERS}"}
        target.write("seeds", [seed(f"{ARTICLE} {said}", **more)], key=b"steers")
        target.write("seeds", [b'{"text": 5, "title": 6}'], key=f"bad {STEERS}".encode())
        until(lambda: target.live("steers"))
        attack.posts([post(said, f"{ARTICLE} {said}", author=said, url=said)])
        attack.posts([json.dumps({said: 1}).encode(), b"{" + STEERS.encode()])
    for command in COMMANDS:
        done = newsift(*command.split())
        assert done.code == 0, (command, done.err)
        assert steering(done.out + done.err) == set(), command
    assert steering(target.worker.said) == set()
    target.forget(b"steers", f"bad {STEERS}".encode())


def steering(text: str) -> set[str]:
    return {char for char in text if category(char) in ("Cc", "Cf") and char not in "\n\t"}
