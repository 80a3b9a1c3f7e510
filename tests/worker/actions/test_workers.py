"""Workers' own web servers, asked from elsewhere: which they are, and one that never ends."""

import socket
from threading import Event, Thread

import pytest

from worker.actions.workers import answer_of, workers_of
from worker.config import load_config


def test_addresses_are_those_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DESK__WORKERS", "a:1, [::1]:2")
    assert workers_of(load_config()) == ["a:1", "[::1]:2"]


def test_who_drips_is_left() -> None:
    left = Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def drip() -> None:
            link, _ = listener.accept()
            with link:
                link.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
                try:
                    while not left.wait(0.02):
                        link.sendall(b"x")
                except OSError:
                    return

        thread = Thread(target=drip)
        thread.start()
        with pytest.raises(TimeoutError, match="too slow"):
            answer_of(f"127.0.0.1:{listener.getsockname()[1]}", "/metrics", 0.3)
        left.set()
        thread.join(20)
