"""The workers' own web servers: which are ours, what they answer, and what they say of drift."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException
from itertools import chain
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from worker.config import Config, WebConfig
from worker.kafka.reading import connected
from worker.match.drift import Drifting, in_a_sentence
from worker.metrics.web import PORT

MOST = 64  # workers that are asked
LARGEST = 2**24  # bytes of an answer
IDENTITY_S = 1.0  # for a worker to say whose it is
LOCAL = tuple(f"127.0.0.1:{port}" for port in range(PORT, PORT + 10))
# What an answer raises that is none, or of something else.
ANSWER_ERRORS = (
    OSError,
    HTTPException,
    msgspec.MsgspecError,
    ValueError,
    ArithmeticError,
    RecursionError,
)


class Identity(msgspec.Struct, frozen=True):
    """Which Kafka cluster a worker reads, in which group, as its /readyz says."""

    cluster_id: str = ""
    group: str = ""


def worker_addresses(config: Config, cluster_id: Callable[[], str]) -> list[str]:
    """The addresses that desk.workers names; else of the workers on this machine that are ours."""
    if config.desk.workers is not None:
        return [each.strip() for each in config.desk.workers.split(",")][:MOST]
    return own_workers(LOCAL, Identity(cluster_id(), config.kafka.group))


def own_workers(addresses: Sequence[str], own: Identity) -> list[str]:
    """Those of these addresses where a worker of this cluster and group answers."""
    if not own.cluster_id:
        return []
    with ThreadPoolExecutor(len(addresses), "identity") as pool:
        identities = list(pool.map(_identity_at, addresses))
    return [address for address, each in zip(addresses, identities, strict=True) if each == own]


def _identity_at(address: str) -> Identity | None:
    try:
        return msgspec.json.decode(get_answer(address, "/readyz", IDENTITY_S)[1], type=Identity)
    except ANSWER_ERRORS:
        return None


def kafka_cluster_id(config: Config) -> str:
    """The id of the cluster that a configuration leads to; empty where it has none."""
    with connected(config) as cluster:
        return cluster.cluster_id


def web_address(web: WebConfig) -> str:
    """Where the web server of the worker with this configuration is, seen from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(web.host, web.host)
    return f"{f'[{host}]' if ':' in host else host}:{web.port or PORT}"


def get_answer(address: str, path: str, seconds: float) -> tuple[int, bytes]:
    """The status and the body of an answer, as far as it is not too large; refused if too slow."""
    host, _, port = address.rpartition(":")
    link = HTTPConnection(host.strip("[]"), int(port), timeout=seconds)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        body, ends_at = bytearray(), time.monotonic() + seconds
        while (piece := answer.read1(2**16)) and len(body) < LARGEST:
            if time.monotonic() > ends_at:
                raise TimeoutError("too slow")
            body += piece
        return answer.status, bytes(body)
    finally:
        link.close()


ANSWER_S = 1.0
NAMES = {"newsift_pass_ratio": "passes", "newsift_high_share": "high"}
TOO_FEW = "too few posts have come to tell"


def read_drift(addresses: Iterable[str]) -> str | None:
    """What these workers say of drift; None where nobody answers with metrics of a worker."""
    pages = [page for page in map(_drifting_at, addresses) if page is not None]
    return in_a_sentence(chain.from_iterable(pages)) or TOO_FEW if pages else None


def _drifting_at(address: str) -> Iterable[Drifting] | None:
    try:
        return parse_drift(get_answer(address, "/metrics", ANSWER_S)[1].decode())
    except ANSWER_ERRORS:
        return None


def parse_drift(page: str) -> Iterable[Drifting] | None:
    """Where seeds and events stand, by the text of a worker's metrics; None if it is none."""
    rows: defaultdict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    families = list(text_string_to_metric_families(page))
    for family in families:
        for sample in family.samples if family.name in NAMES else ():
            name = sample.labels.get("event", ""), sample.labels.get("seed", "")
            rows[name][NAMES[family.name]] = sample.value
    names = {family.name for family in families}
    return [Drifting(*name, **row) for name, row in rows.items()] if NAMES.keys() <= names else None
