import json
import signal
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from newsift.broker.server import running
from newsift.desk.project import locked
from newsift.desk.site import FIRST_PORT
from tests.broker.kafka import free_ports
from tests.newsift.desk.desk_topics import DeskProcess, desks
from tests.worker.fake_command import Command

NOWHERE = f"127.0.0.1:{free_ports(1)[0]}"
ENDS_WITHIN_S = 10.0  # on a machine that is shared; alone it takes less than two
Start = Callable[..., DeskProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with desks(tmp_path, NEWSIFT_KAFKA=NOWHERE) as start:
        yield start


@pytest.mark.parametrize(("how", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_ends_soon_without_a_broker(start: Start, how: signal.Signals, code: int) -> None:
    desk = start("--port", "0")
    with urlopen(Request(f"{desk.url}api/changes", headers=desk.login)) as page:
        assert desk.call("session")["read_only"] is False
        assert page.readline() == b"event: change\n"
        began = time.monotonic()
        assert desk.leave(how) == code
    assert time.monotonic() - began < ENDS_WITHIN_S
    assert "Traceback" not in desk.output


def test_certificates_are_read_before_anything_is_served(start: Start) -> None:
    tls = {"NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL", "NEWSIFT_KAFKA__CA_FILE": "none.pem"}
    desk = start("--port", "0", **tls)
    assert (desk.wait(), "kafka.ca_file: " in desk.output) == (2, True)
    assert desk.output.count("\n") == 1


def test_a_refused_login_ends_it(start: Start) -> None:
    login = {"SECURITY_PROTOCOL": "SASL_PLAINTEXT", "SASL_MECHANISM": "PLAIN"}
    login |= {"USERNAME": "ada", "PASSWORD": "secret"}
    with running() as address:  # which takes no login
        env = {f"NEWSIFT_KAFKA__{key}": value for key, value in login.items()}
        desk = start("--port", "0", **env, NEWSIFT_KAFKA=str(address))
        assert desk.wait() == 2
        assert desk.output.startswith(f"newsift: broker {address}: does not offer ")
    assert desk.output.count("\n") == 1


def refusal(url: str, **headers: str) -> int:
    with pytest.raises(HTTPError) as caught:
        urlopen(Request(url, headers=headers))
    caught.value.close()
    return caught.value.code


def test_without_the_token_of_this_start_nothing_is_answered(start: Start) -> None:
    one, other = start("--port", "0"), start("--port", "0")
    assert refusal(f"{one.url}api/session") == 401
    assert one.address.partition("=")[2] != other.address.partition("=")[2]
    assert refusal(f"{one.url}api/session", **other.login) == 401


@pytest.mark.parametrize("more", [("--read-only",), ("--file", "a.csv"), ("--project", "p")])
def test_projects_go_with_nothing_else(newsift: Command, tmp_path: Path, more: tuple[str]) -> None:
    done = newsift("desk", "--projects", tmp_path, *more)
    assert (done.code, "--projects" in done.err) == (2, True)


def test_a_folder_of_projects_is_no_project_and_open_in_one_desk(
    newsift: Command, tmp_path: Path
) -> None:
    (tmp_path / "project.json").write_text("{}")
    assert newsift("desk", "--projects", tmp_path).code == 2
    with locked(tmp_path / "projects"):
        assert newsift("desk", "--projects", tmp_path / "projects").code == 2


@pytest.mark.slow
def test_a_configured_token_is_required_and_not_printed(start: Start) -> None:
    token = "a" * 32
    desk = start("--port", "0", NEWSIFT_DESK__TOKEN=token)
    assert (desk.address, token in desk.output) == (desk.url, False)
    assert refusal(f"{desk.url}api/session") == 401
    with urlopen(Request(f"{desk.url}api/session", headers={"Authorization": f"Bearer {token}"})):
        pass


@pytest.mark.slow
def test_no_token_is_for_this_machine_alone_and_not_beside_one(start: Start) -> None:
    desk = start("--port", "0", "--no-token")
    assert desk.address == desk.url
    with urlopen(f"{desk.url}api/session") as session:
        assert json.load(session)["answer"]["read_only"] is False


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
        assert f"port {FIRST_PORT} is taken; listening on {desk.port}" in desk.output
