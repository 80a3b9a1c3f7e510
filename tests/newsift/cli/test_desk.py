"""`newsift desk` as a process: where it is served, what ends it, and what it refuses."""

import itertools
import json
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from newsift.desk.site import FIRST_PORT
from tests.broker.clients import until
from tests.broker.kafka import free_ports
from tests.newsift.desk.place import DeskProcess

NOWHERE = f"127.0.0.1:{free_ports(1)[0]}"
ENDS_WITHIN_S = 10.0  # on a machine that is shared; alone it takes less than two
Start = Callable[..., DeskProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a desk whose broker is away; it is ended with the test."""
    numbers = itertools.count()
    with ExitStack() as stack:

        def begin(*arguments: str, **env: str) -> DeskProcess:
            stored = {k: v for k, v in os.environ.items() if not k.startswith("NEWSIFT_")}
            given = stored | {"NEWSIFT_KAFKA": NOWHERE} | env
            made = DeskProcess(tmp_path / f"desk-{next(numbers)}.log", given, arguments)
            stack.callback(made.process.wait)
            stack.callback(made.process.kill)
            return made

        yield begin


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_it_ends_soon_though_the_broker_is_away_and_a_page_is_open(
    start: Start, how: signal.Signals, code: int
) -> None:
    desk = start("--port", "0")
    changes, session_of = (
        Request(f"{desk.url}api/{name}", headers=desk.login) for name in ("changes", "session")
    )
    with urlopen(changes) as page, urlopen(session_of) as session:
        assert json.load(session)["answer"]["read_only"] is False
        assert page.readline() == b"event: change\n"
        began = time.monotonic()
        assert desk.end(how) == code
    assert time.monotonic() - began < ENDS_WITHIN_S
    assert "Traceback" not in desk.said


@pytest.mark.slow
def test_it_says_where_it_is_in_a_line(start: Start) -> None:
    desk = start("--port", "0")
    line = f"newsift: the desk is open at {desk.address} (Ctrl-C ends it)"
    until(lambda: line in desk.said.splitlines())
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{43}", desk.address)


def refusal(url: str) -> int:
    """The status of a refused request."""
    with pytest.raises(HTTPError) as caught:
        urlopen(url)
    caught.value.close()
    return caught.value.code


def test_without_the_token_of_this_start_nothing_is_answered(start: Start) -> None:
    one, other = start("--port", "0"), start("--port", "0")
    assert refusal(f"{one.url}api/session") == 401
    assert one.address.partition("=")[2] != other.address.partition("=")[2]
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(f"{one.url}api/session", headers=other.login))
    caught.value.close()
    assert caught.value.code == 401


@pytest.mark.slow
def test_a_token_of_one_s_own_is_asked_for_and_not_printed(start: Start) -> None:
    token = "a" * 32
    desk = start("--port", "0", NEWSIFT_DESK__TOKEN=token)
    assert (desk.address, token in desk.said) == (desk.url, False)
    assert refusal(f"{desk.url}api/session") == 401
    with urlopen(Request(f"{desk.url}api/session", headers={"Authorization": f"Bearer {token}"})):
        pass


@pytest.mark.slow
def test_no_token_is_for_this_machine_alone_and_not_beside_one(start: Start) -> None:
    desk = start("--port", "0", "--no-token")
    assert desk.address == desk.url
    with urlopen(f"{desk.url}api/session") as session:
        assert json.load(session)["answer"]["read_only"] is False
    message = refused(start("--no-token", NEWSIFT_DESK__TOKEN="a" * 32))
    assert message == "newsift: --no-token: but desk.token is set; leave one of the two out"
    message = refused(start("--no-token", NEWSIFT_DESK__HOST="0.0.0.0"))
    assert message.startswith("newsift: desk.host: 0.0.0.0 is open to others")


@pytest.mark.slow
def test_a_default_port_that_is_taken_is_no_hindrance(start: Start) -> None:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("127.0.0.1", FIRST_PORT))
            taken.listen()
        except OSError:
            pass  # another desk has it, which is as good
        desk = start()
        assert desk.port > FIRST_PORT
        assert f"port {FIRST_PORT} is taken; listening on {desk.port}" in desk.said


def refused(desk: DeskProcess) -> str:
    """The last line of one that is refused."""
    assert desk.ended() == 2
    assert "Traceback" not in desk.said
    return desk.said.splitlines()[-1]


@pytest.mark.slow
def test_a_port_of_one_s_own_that_is_taken_is_refused(start: Start) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert refused(start("--port", str(port))) == (
            f"newsift: --port: {port} is taken; free it, or give another"
        )


@pytest.mark.slow
def test_open_to_others_it_wants_a_token_that_is_no_guess(start: Start) -> None:
    message = refused(start(NEWSIFT_DESK__HOST="0.0.0.0"))
    assert message.startswith(
        "newsift: desk.host: 0.0.0.0 is open to others; set NEWSIFT_DESK__TOKEN"
    )
    message = refused(start(NEWSIFT_DESK__HOST="0.0.0.0", NEWSIFT_DESK__TOKEN="short"))
    assert message == "newsift: desk.token: is easily guessed; give 16 characters or more"


@pytest.mark.slow
def test_a_host_that_is_not_this_one_s_is_refused(start: Start) -> None:
    message = refused(
        start("--port", "0", NEWSIFT_DESK__HOST="192.0.2.1", NEWSIFT_DESK__TOKEN="a" * 16)
    )
    assert message.startswith("newsift: desk.host: 192.0.2.1 is no address of this host")
