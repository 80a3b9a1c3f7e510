"""The workers' web servers: which belong to this user and cluster, and how they are asked."""

import secrets
import socket
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError, ThreadPoolExecutor
from contextlib import closing, suppress
from hmac import compare_digest
from http.client import HTTPConnection, HTTPException
from itertools import chain
from threading import Thread

import msgspec

from newsift.web.addresses import host_and_port
from worker.config import Config
from worker.kafka.reading import connected
from worker.metrics.address_file import (
    CHALLENGE_HEADER,
    PROOF_HEADER,
    WorkerAddress,
    read_addresses,
)

MAX_WORKERS = 64
MAX_RESPONSE_BYTES = 2**24
ANSWER_S = 1.0
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


def worker_addresses(config: Config, cluster_id: Callable[[], str]) -> list[WorkerAddress]:
    """Those of desk.workers; else of this user's workers of this cluster and group."""
    if config.desk.workers is not None:
        addresses = chain.from_iterable(map(replica_addresses, config.desk.workers.split(",")))
        return [WorkerAddress(address) for address in addresses][:MAX_WORKERS]
    if not (workers := read_addresses()):
        return []
    return own_workers(workers, WorkerIdentity(cluster_id(), config.kafka.group))


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


def own_workers(workers: Sequence[WorkerAddress], identity: WorkerIdentity) -> list[WorkerAddress]:
    def is_own(worker: WorkerAddress) -> bool:
        try:
            body = ask_worker(worker, "/readyz", ANSWER_S)[1]
            return msgspec.json.decode(body, type=WorkerIdentity) == identity
        except ANSWER_ERRORS:
            return False

    if not identity.cluster_id:
        return []
    with ThreadPoolExecutor(len(workers), "identity") as pool:
        answers = list(pool.map(is_own, workers))
    return [worker for worker, is_own_worker in zip(workers, answers, strict=True) if is_own_worker]


def read_seed_set(address: str) -> str | None:
    """The digest of the seeds that a worker matches with; None if it does not answer yet."""
    try:
        status, body = ask_worker(WorkerAddress(address), "/seeds", ANSWER_S)
        return msgspec.json.decode(body, type=SeedListAnswer).seed_set if status == 200 else None
    except ANSWER_ERRORS:
        return None


def kafka_cluster_id(config: Config) -> str:
    """Empty where the cluster has none."""
    with connected(config) as cluster:
        return cluster.cluster_id


def ask_worker(worker: WorkerAddress, path: str, seconds: float) -> tuple[int, bytes]:
    """Status and body, cut if too large.

    Raises TimeoutError if the whole call takes longer, and ValueError for a server that has the
    address of a worker of this user without being it.
    """
    host, _, port = worker.address.rpartition(":")
    connection = HTTPConnection(host.strip("[]"), int(port), timeout=seconds)
    future: Future[tuple[int, bytes]] = Future()
    sockets: list[socket.socket] = []

    def run() -> None:
        with closing(connection), suppress(InvalidStateError):  # nobody waits any more
            try:
                connection.connect()
                sockets.append(connection.sock)
                if not future.cancelled():
                    future.set_result(_read_answer(connection, worker, path))
            except Exception as error:  # noqa: BLE001 - raised again in the caller's thread
                future.set_exception(error)

    Thread(target=run, name="worker-request", daemon=True).start()
    try:
        return future.result(seconds)
    except TimeoutError:
        future.cancel()
        for each in sockets:  # none before it is connected
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
        raise TimeoutError("too slow") from None


def _read_answer(connection: HTTPConnection, worker: WorkerAddress, path: str) -> tuple[int, bytes]:
    challenge = secrets.token_hex(16)
    connection.request("GET", path, headers={CHALLENGE_HEADER: challenge} if worker.token else {})
    answer = connection.getresponse()
    proof = answer.getheader(PROOF_HEADER, "").encode()
    if worker.token and not compare_digest(proof, worker.proof(challenge).encode()):
        raise ValueError("another server has this address")
    body = bytearray()
    while (piece := answer.read1(2**16)) and len(body) < MAX_RESPONSE_BYTES:
        body += piece
    return answer.status, bytes(body)
