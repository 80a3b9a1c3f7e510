"""Workers' own web servers, asked from elsewhere: which they are, and one that never ends."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from threading import Event, Thread

import pytest

from newsift.broker.server import running
from newsift.operations.workers import (
    LOCAL,
    Identity,
    get_answer,
    kafka_cluster_id,
    own_workers,
    worker_addresses,
)
from tests.newsift.worker_web import worker_web
from worker.config import Config, KafkaConfig, load_config
from worker.metrics.registry import Metrics
from worker.metrics.web import Health

OURS = Identity("cluster", "group")


@contextmanager
def serving(*identities: Identity) -> Iterator[list[str]]:
    """The addresses of workers that name these."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                worker_web(Metrics(), Health("", None, each.cluster_id, each.group))
            )
            for each in identities
        ]


def test_addresses_are_those_of_the_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DESK__WORKERS", "a:1, [::1]:2")
    assert worker_addresses(load_config(), pytest.fail) == ["a:1", "[::1]:2"]


def test_unset_the_workers_of_this_machine_with_the_same_cluster_and_group_are_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert (LOCAL[0], LOCAL[-1], len(LOCAL)) == ("127.0.0.1:6066", "127.0.0.1:6075", 10)
    config = Config(kafka=KafkaConfig(group="group"))
    others = (Identity("another", "group"), Identity("cluster", "another"), Identity("", "group"))
    with (
        serving(others[0], OURS, *others[1:]) as addresses,
        socket.create_server(("127.0.0.1", 0)) as silent,
    ):
        every = (*addresses, f"127.0.0.1:{silent.getsockname()[1]}", "127.0.0.1:9")
        monkeypatch.setattr("newsift.operations.workers.LOCAL", every)
        assert worker_addresses(config, lambda: "cluster") == [addresses[1]]
        assert worker_addresses(config, lambda: "") == []


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"null", b'{"cluster_id": 1, "group": "group"}', b"x"]
)
def test_what_names_no_cluster_is_no_worker_of_ours(body: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            link, _ = listener.accept()
            with link:
                link.recv(2**16)
                link.sendall(b"HTTP/1.1 200 OK\r\n\r\n" + body)

        thread = Thread(target=answer)
        thread.start()
        assert own_workers([f"127.0.0.1:{listener.getsockname()[1]}"], OURS) == []
        thread.join(20)


def test_each_start_of_the_embedded_broker_is_a_cluster_of_its_own() -> None:
    ids = set()
    for _ in range(2):
        with running() as broker:
            config = Config(kafka=KafkaConfig(bootstrap_servers=str(broker)))
            ids.add(kafka_cluster_id(config))
    assert len(ids - {""}) == 2


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
            get_answer(f"127.0.0.1:{listener.getsockname()[1]}", "/metrics", 0.3)
        left.set()
        thread.join(20)
