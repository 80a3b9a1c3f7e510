import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from newsift.operations.workers import (
    WorkerIdentity,
    http_get,
    own_workers,
    worker_addresses,
)
from tests.newsift.worker_web import answering, dripping, worker_web
from worker.config import Config, KafkaConfig, load_config
from worker.metrics.registry import Metrics
from worker.metrics.web import Health

OURS = WorkerIdentity("cluster", "group")


@contextmanager
def serving(*identities: WorkerIdentity) -> Iterator[list[str]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                worker_web(Metrics(), Health("", None, each.cluster_id, each.group))
            )
            for each in identities
        ]


def test_finds_local_workers_of_the_same_cluster_and_group(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DESK__WORKERS", "127.0.0.1:1, [::1]:2")
    assert worker_addresses(load_config(), pytest.fail) == ["127.0.0.1:1", "[::1]:2"]
    config = Config(kafka=KafkaConfig(group="group"))
    others = (
        WorkerIdentity("another", "group"),
        WorkerIdentity("cluster", "another"),
        WorkerIdentity("", "group"),
    )
    with (
        serving(others[0], OURS, *others[1:]) as addresses,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        every = (*addresses, f"127.0.0.1:{silent.getsockname()[1]}", "127.0.0.1:9")
        monkeypatch.setattr("newsift.operations.workers.LOCAL_ADDRESSES", every)
        assert worker_addresses(config, lambda: "cluster") == [addresses[1]]
        assert worker_addresses(config, lambda: "") == []


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
    assert worker_addresses(load_config(), pytest.fail) == [
        *("10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1", "[fd00::1]:2", "[fd00::2]:2"),
        *("one:3", "none:4"),
    ]


def test_gives_up_a_worker_that_drips() -> None:
    with dripping(b"HTTP/1.1 200 OK\r\n\r\n") as (port, broken):
        with pytest.raises(TimeoutError):
            http_get(f"127.0.0.1:{port}", "/metrics", 0.3)
        assert broken.wait(30)


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"\xff", b'{"cluster_id": 1, "group": "group"}', b"a{b=\n", b"newsift_x 1"]
)
def test_another_server_is_no_worker(body: bytes) -> None:
    with answering(b"HTTP/1.1 200 OK\r\n\r\n" + body) as address:
        assert own_workers([address], OURS) == []
