"""The desk under attack: another user of the machine, who has not seen the token."""

import multiprocessing
import os
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from newsift.desk.views import ENDPOINTS
from tests.broker.server import Server
from tests.newsift.desk.place import DeskProcess, Place

NOBODY = 65534
TITLE = "Fire on a ferry"


@pytest.fixture
def desk(server: Server, tmp_path: Path) -> Iterator[DeskProcess]:
    with closing(Place(server, tmp_path)) as place:
        place.send("seeds", ("one", {"text": "a ferry burns " * 30, "title": TITLE}))
        started = place.desk()
        assert started.url
        yield started


Asked = tuple[str, str, dict[str, str]]


def ask_as_nobody(port: int, questions: list[Asked], told: Connection) -> None:
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    answers = []
    for method, path, headers in questions:
        with closing(HTTPConnection("127.0.0.1", port, timeout=20)) as link:
            link.request(method, path, body=b"{}" if method == "POST" else None, headers=headers)
            answer = link.getresponse()
            answers.append((answer.status, answer.read()))
    told.send(answers)


def as_nobody(port: int, questions: list[Asked]) -> list[tuple[int, bytes]]:
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(
        target=ask_as_nobody, args=(port, questions, theirs)
    )
    process.start()
    assert ours.poll(120)
    process.join()
    answers: list[tuple[int, bytes]] = ours.recv()
    return answers


def test_another_user_of_the_machine_is_refused(desk: DeskProcess) -> None:
    json = {"Content-Type": "application/json"}
    shown = {"Cookie": f"newsift_desk_{desk.port}=x; newsift_desk_{desk.port}="}
    asked: list[Asked] = [
        ("POST" if each.audit_name else "GET", each.path, (json if each.audit_name else {}) | more)
        for each in ENDPOINTS
        for more in ({}, shown)
    ]
    asked += [("GET", "/api/changes", {}), ("POST", "/api/login", json)]
    assert {status for status, _ in as_nobody(desk.port, asked)} == {401}


def test_arguments_and_environment_do_not_hold_the_token(desk: DeskProcess) -> None:
    token = desk.address.partition("=")[2]
    for name in ("cmdline", "environ"):
        assert token.encode() not in Path(f"/proc/{desk.process.pid}/{name}").read_bytes()
