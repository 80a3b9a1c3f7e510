import socket
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from newsift.operations.workers import WorkerIdentity, ask_worker, own_workers, worker_addresses
from tests.newsift.worker_web import worker_web
from tests.worker.fake_web_server import answering, dripping
from worker.config import Config, KafkaConfig
from worker.config.load import load_config
from worker.metrics.address_file import WorkerAddress, read_addresses, write_address
from worker.metrics.web import Health

OURS = WorkerIdentity("cluster", "group")


def test_only_workers_that_left_an_address_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DESK__WORKERS", "127.0.0.1:1, [::1]:2")
    configured = [WorkerAddress("127.0.0.1:1"), WorkerAddress("[::1]:2")]
    assert worker_addresses(load_config(), pytest.fail) == configured
    config = Config(kafka=KafkaConfig(group="group"))
    assert worker_addresses(config, pytest.fail) == []
    identities = [("another", "group"), ("cluster", "group"), ("cluster", "another"), ("", "group")]
    with ExitStack() as stack:
        healths = [Health("", None, *identity) for identity in identities]
        addresses = [stack.enter_context(worker_web(health)) for health in healths]
        found = worker_addresses(config, lambda: "cluster")
        assert [worker.address for worker in found] == [addresses[1]]
        assert worker_addresses(config, lambda: "") == []
    assert worker_addresses(config, lambda: "cluster") == []


def test_a_server_in_the_place_of_a_worker_is_not_believed(state_folder: Path) -> None:
    ready = b'HTTP/1.1 200 OK\r\n\r\n{"cluster_id": "cluster", "group": "group"}'
    with answering(ready) as address:
        worker = write_address(address)
        (file,) = (state_folder / "workers").iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        assert read_addresses() == [worker]
        assert own_workers([WorkerAddress(address)], OURS) == [WorkerAddress(address)]
        assert own_workers([worker], OURS) == []
    file.rename(file.with_name("999999999-1.json"))  # of a process that has ended
    assert read_addresses() == []


def test_a_name_stands_for_all_replicas(monkeypatch: pytest.MonkeyPatch) -> None:
    hosts = {
        "three": ["10.0.0.2", "10.0.0.1", "10.0.0.3"], "v6": ["fd00::2", "fd00::1", "10.0.0.1"],
        "one": ["10.0.0.1", "fd00::1"],
    }  # fmt: skip

    def resolve(host: str, _port: object) -> list[Any]:
        if host not in hosts:
            raise OSError("unknown name")
        kinds = ((socket.AF_INET6 if ":" in each else socket.AF_INET, each) for each in hosts[host])
        return [(kind, socket.SOCK_STREAM, 6, "", (each, 0)) for kind, each in kinds] * 2

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setenv("NEWSIFT_DESK__WORKERS", "three:1, v6:2,one:3,none:4")
    assert [worker.address for worker in worker_addresses(load_config(), pytest.fail)] == [
        *("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "[fd00::1]:2", "[fd00::2]:2"),
        *("one:3", "none:4"),
    ]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\nA: ", b""])
def test_a_call_has_one_deadline(head: bytes) -> None:
    with dripping(head) as (port, broken):
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            ask_worker(WorkerAddress(f"127.0.0.1:{port}"), "/metrics", 0.3)
        assert time.monotonic() - began < 2.0
        assert broken.wait(30)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"\xff", b'{"cluster_id": 1, "group": "group"}', b"a{b=\n", b"newsift_x 1"]
)
def test_another_server_is_no_worker(body: bytes) -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n" + body) as address:
        assert own_workers([WorkerAddress(address)], OURS) == []
