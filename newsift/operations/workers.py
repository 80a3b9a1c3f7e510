"""The workers' web servers: which belong to this cluster, and how they are asked."""

import socket
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from itertools import chain

import msgspec

from newsift.web.addresses import host_and_port
from worker.config import Config
from worker.kafka.reading import connected
from worker.metrics.web import DEFAULT_PORT

MAX_WORKERS = 64
MAX_RESPONSE_BYTES = 2**24
ANSWER_S = 1.0
LOCAL_ADDRESSES = tuple(f"127.0.0.1:{port}" for port in range(DEFAULT_PORT, DEFAULT_PORT + 10))
# Of a server that does not answer, or is not a worker.
ANSWER_ERRORS = (
    OSError, HTTPException, msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError,
)  # fmt: skip


class WorkerIdentity(msgspec.Struct, frozen=True):
    """The Kafka cluster and group of a worker, by its /readyz."""

    cluster_id: str = ""
    group: str = ""


class SeedListAnswer(msgspec.Struct):
    seed_set: str


def worker_addresses(config: Config, cluster_id: Callable[[], str]) -> list[str]:
    """Those of desk.workers; else of this machine's workers of this cluster and group."""
    if config.desk.workers is not None:
        addresses = map(replica_addresses, config.desk.workers.split(","))
        return [*chain.from_iterable(addresses)][:MAX_WORKERS]
    return own_workers(LOCAL_ADDRESSES, WorkerIdentity(cluster_id(), config.kafka.group))


def replica_addresses(address: str) -> list[str]:
    """The address itself, or those of all servers that its name stands for.

    Several addresses of one kind are replicas; one of IPv4 and one of IPv6 are the same server.
    """
    host, _, port = address.strip().rpartition(":")
    hosts: defaultdict[int, set[str]] = defaultdict(set)
    with suppress(OSError, UnicodeError):  # the request reports a name that does not resolve
        for family, *_, server in socket.getaddrinfo(host.strip("[]"), None):
            hosts[family].add(str(server[0]))
    replicas = max(hosts.values(), key=len, default=set())
    if len(replicas) < 2:
        return [address.strip()]
    return [host_and_port(name, int(port)) for name in sorted(replicas)]


def own_workers(addresses: Sequence[str], identity: WorkerIdentity) -> list[str]:
    def is_own(address: str) -> bool:
        try:
            body = http_get(address, "/readyz", ANSWER_S)[1]
            return msgspec.json.decode(body, type=WorkerIdentity) == identity
        except ANSWER_ERRORS:
            return False

    if not identity.cluster_id:
        return []
    with ThreadPoolExecutor(len(addresses), "identity") as pool:
        answers = list(pool.map(is_own, addresses))
    return [
        address for address, is_own_worker in zip(addresses, answers, strict=True) if is_own_worker
    ]


def read_seed_set(address: str) -> str | None:
    """The digest of the seeds that a worker matches with; None if it does not answer yet."""
    try:
        status, body = http_get(address, "/seeds", ANSWER_S)
        return msgspec.json.decode(body, type=SeedListAnswer).seed_set if status == 200 else None
    except ANSWER_ERRORS:
        return None


def kafka_cluster_id(config: Config) -> str:
    """Empty where the cluster has none."""
    with connected(config) as cluster:
        return cluster.cluster_id


def http_get(address: str, path: str, seconds: float) -> tuple[int, bytes]:
    """Status and body, cut if too large; raises TimeoutError if too slow."""
    host, _, port = address.rpartition(":")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=seconds)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        body, ends_at = bytearray(), time.monotonic() + seconds
        while (piece := answer.read1(2**16)) and len(body) < MAX_RESPONSE_BYTES:
            if time.monotonic() > ends_at:
                raise TimeoutError("too slow")
            body += piece
        return answer.status, bytes(body)
    finally:
        connection.close()
