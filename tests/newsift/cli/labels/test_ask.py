"""`newsift labels ask` at a terminal: what it shows, what each key publishes, and its end."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest

from newsift.statistics.labels import Label, QueueName, read_label
from newsift.statistics.queues import certifies_only
from tests.newsift.cli.labels.at_terminal import AtTerminal
from tests.worker.fake import Command
from tests.worker.judged import EVIL, begin, drawn, labels, match
from tests.worker.kafka_side import LABELS, MATCHES, Kafka

KEYS = "[q] quit"


def test_matches_are_asked_about_in_the_order_of_their_hashes(kafka: Kafka) -> None:
    names = [str(n) for n in range(120)]
    kafka.fill(MATCHES, [match(n) for n in names])
    kafka.fill(MATCHES, [match("copy", group="0"), match("7", event="quake"), b"\xff{"])
    begin(kafka, "0")
    order = drawn(names)
    with AtTerminal("labels", "ask", "storm", "--by", "ann") as terminal:
        message = terminal.hears(KEYS)
        assert (
            f"0.500 (threshold 0.250)  x  2026-03-01T10:00:00Z  https://x.example/{order[0]}"
            in message
        )
        assert f"  rain[0.40] {order[0]}" in message
        assert "  second line" in message
        assert "19 more, if none is wrong" in message
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(message)
        for key, verdict in zip("ynuz", ("on", "off", "unsure", "undone"), strict=True):
            terminal.press("x" + key)
            terminal.hears(verdict)
            message = terminal.hears(KEYS)
        assert f"https://x.example/{order[2]}" in message
        terminal.press("q")
        assert terminal.ends() == 0
        assert "2 labels given" in terminal.shown
    a, b, c = order[:3]
    assert labels(kafka) == [(a, "on"), (b, "off"), (c, "unsure"), (c, None)]
    label = read_label(kafka.records(LABELS)[1].key, kafka.records(LABELS)[1].value)
    assert isinstance(label, Label)
    assert label.queue == QueueName("", "2026-03-01T10:00:00.000Z")
    assert (label.drawn, label.by, label.score, label.seed_set) == ("certify", "ann", 0.5, "ab")
    assert label.probability == 0.5 / len(order)
    with AtTerminal("labels", "ask", "storm", "--by", "ann") as terminal:
        assert f"https://x.example/{c}" in terminal.hears(KEYS)  # goes on where it ended
        assert terminal.interrupts() == 130
        assert "Traceback" not in terminal.shown
    with AtTerminal("labels", "ask", "storm", "--by", "ben") as terminal:
        assert f"https://x.example/{a}" in terminal.hears(KEYS)  # the same posts, for κ


@pytest.mark.slow
def test_a_cut_is_shown_after_enough_labels(kafka: Kafka) -> None:
    names = [str(n) for n in range(120)]
    kafka.fill(MATCHES, [match(n, 0.9 - 0.001 * int(n)) for n in names])
    with AtTerminal("labels", "ask", "storm", "--by", "ann") as terminal:
        for left in range(19, 0, -1):
            assert f"{left} more, if none is wrong" in terminal.hears(KEYS)
            terminal.press("y")
        cut = sorted((0.9 - 0.001 * int(n) for n in drawn(names)), reverse=True)[24]
        assert f"precision 0.8 from {cut:.3f} on; " in terminal.hears(KEYS)
        terminal.press("q")
        assert terminal.ends() == 0


@pytest.mark.slow
def test_where_no_promise_can_be_made_it_says_why_and_asks_until_all_is_read(
    kafka: Kafka,
) -> None:
    names = [str(n) for n in range(120)]
    kafka.fill(MATCHES, [match(n, 0.9 - 0.001 * int(n)) for n in names])
    why = "1 of 2 was off; 80 % cannot be promised from these 120 matches"
    with AtTerminal("labels", "ask", "storm", "--by", "ann") as terminal:
        terminal.hears(KEYS)
        terminal.press("y")
        terminal.hears(KEYS)
        terminal.press("n")
        assert f"{why}; 118 unread" in terminal.hears(KEYS)
        for left in range(117, -1, -1):
            terminal.press("y")
            assert f"{why}; " in terminal.hears(f"{left} unread")
        assert terminal.ends() == 0
    assert {name for name, _ in labels(kafka)} == set(names)
    read = [read_label(record.key, record.value) for record in kafka.records(LABELS)]
    drawn_as = {label.post.id: label.drawn for label in read if isinstance(label, Label)}
    certifying = {n for n in names if certifies_only(("x", n))}
    assert drawn_as == {n: "certify" if n in certifying else "learn" for n in names}


@pytest.mark.slow
def test_each_draw_is_in_an_order_of_its_own_which_others_follow(kafka: Kafka) -> None:
    names = [str(n) for n in range(120)]
    kafka.fill(MATCHES, [match(n) for n in names])
    for by in ("ann", "ben"):
        with AtTerminal("labels", "ask", "storm", "--by", by) as terminal:
            for _ in range(6):
                terminal.hears(KEYS)
                terminal.press("y")
            terminal.hears(KEYS)
    order = [name for name, _ in labels(kafka)]
    assert order[:6] == order[6:12]
    assert order[:6] != drawn(names)[:6]
    read = [read_label(record.key, record.value) for record in kafka.records(LABELS)]
    queues = {label.queue for label in read if isinstance(label, Label)}
    assert len(queues) == 1


class Near(BaseHTTPRequestHandler):
    """A worker that tells of one near miss of the event."""

    post: dict[str, Any]

    def do_GET(self) -> None:
        """Answer as a worker does."""
        near = {"post": self.post, "score": 0.24}
        strata = [{"count": 9, "kept": [near]}, {"count": 0, "kept": []}]
        body = {"event": "storm", "seed_set": "ab", "edges": {"s": [0.25, 0.2, 0.1]}}
        self.send_response(200 if self.path == "/near?event=storm" else 404)
        self.end_headers()
        self.wfile.write(json.dumps(body | {"strata": strata}).encode())

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.mark.slow
def test_learn_asks_around_the_threshold_in_turn(kafka: Kafka) -> None:
    names = [str(n) for n in range(40)]
    kafka.fill(MATCHES, [match(n, 0.3 + 0.01 * int(n)) for n in names])
    near = next(n for n in map(str, range(1_000, 1_100)) if not certifies_only(("x", n)))
    Near.post = {"id": near, "platform": "x", "text": "wind", "url": f"https://x.example/{near}"}
    server = HTTPServer(("127.0.0.1", 0), Near)
    Thread(target=server.serve_forever, daemon=True).start()
    workers = f"127.0.0.1:{server.server_port},127.0.0.1:1"
    first = next(n for n in names if not certifies_only(("x", n)))
    requests = "labels", "ask", "storm", "--queue", "learn"
    with AtTerminal(*requests, "--by", "ann", NEWSIFT_DESK__WORKERS=workers) as terminal:
        message = terminal.hears(KEYS)
        assert "127.0.0.1:1: tells of no near misses (ConnectionRefusedError)" in message
        assert f"https://x.example/{first}\r\n" in message
        terminal.press("n")
        message = terminal.hears(KEYS)
        assert "0.240 (below the threshold)" in message
        assert f"https://x.example/{near}" in message
        terminal.press("yq")
        assert terminal.ends() == 0
    server.shutdown()
    server.server_close()
    assert labels(kafka) == [(first, "off"), (near, "on")]


def test_without_a_terminal_the_remedy_is_named(newsift: Command, kafka: Kafka) -> None:
    done = newsift("labels", "ask", "storm")
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert "needs a terminal" in done.err
    assert "newsift labels import" in done.err


@pytest.mark.slow
def test_nothing_to_ask_about_and_names_that_cannot_be(kafka: Kafka) -> None:
    with AtTerminal("labels", "ask", f"no{EVIL}") as terminal:
        assert terminal.ends() == 0
        assert "no matches to ask about" in terminal.shown
        assert "\x1b]" not in terminal.shown
    with AtTerminal("labels", "ask", "e" * 241) as terminal:
        assert terminal.ends() == 2
        assert "EVENT: give a name of 1 to 240 bytes" in terminal.shown
