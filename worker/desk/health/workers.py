"""The workers' own web servers: whether each is ready, and what it says of itself."""

import time
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from worker.actions.drift import TOO_FEW, drifting_in
from worker.config import Config
from worker.judge.drift import in_a_sentence

ANSWER_S = 2.0
LARGEST = 2**22  # bytes of an answer
MOST = 64  # workers that are asked
AT_ONCE = 8
LONGEST = 300  # characters of what one says
WRONG = (OSError, HTTPException, msgspec.MsgspecError, ValueError, ArithmeticError, RecursionError)
INFO = {"newsift_model_info": "digest", "newsift_seed_set_info": "digest",
        "newsift_version_info": "version"}  # fmt: skip
NUMBERS = ("newsift_paused", "newsift_offsets_lost_total")
SUMS = ("newsift_unreadable_batches_total", "newsift_lag_posts")
MOST_OF = ("newsift_open_transaction_seconds",)

Row = dict[str, Any]


def workers_of(config: Config) -> list[str]:
    """The addresses that desk.workers names."""
    return [each.strip() for each in config.desk.workers.split(",")][:MOST]


def asked_all(addresses: Iterable[str]) -> list[Row]:
    """What each says of itself, asked at the same time."""
    with ThreadPoolExecutor(AT_ONCE, "desk-worker") as hands:
        return list(hands.map(asked, addresses))


def asked(address: str) -> Row:
    """What a worker says of itself; `away` says why it says nothing."""
    row: Row = {"address": address, "away": "", "ready": False, "reason": "", "drift": None}
    try:
        status, body = _got(address, "/readyz")
        said = msgspec.json.decode(body)
        reason = said.get("reason") if isinstance(said, dict) else None
        row |= {"ready": status == 200, "reason": str(reason or "")[:LONGEST]}
        status, body = _got(address, "/metrics")
        return row | (of_metrics(body.decode()) if status == 200 else {})
    except WRONG as error:
        told = getattr(error, "strerror", None) or str(error) or type(error).__name__
        return row | {"away": f"no worker answers ({told})"[:LONGEST]}


def of_metrics(page: str) -> Row:
    """What a page of a worker's metrics says."""
    found: Row = dict.fromkeys((*INFO, *NUMBERS, *SUMS, *MOST_OF))
    refused, bursts = 0, Counter[str]()
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            name, value = sample.name, sample.value
            if name in INFO:
                found[name] = sample.labels.get(INFO[name], "")[:LONGEST]
            elif name in NUMBERS:
                found[name] = value
            elif name in SUMS:
                found[name] = (found[name] or 0) + value
            elif name in MOST_OF:
                found[name] = max(found[name] or 0, value)
            elif name == "newsift_seeds" and sample.labels.get("state") == "refused":
                refused = int(value)
            elif name == "newsift_bursts_total":
                bursts[sample.labels.get("event", "")] += int(value)
    drifting = drifting_in(page)
    told = {each.event for each in drifting or ()}
    events = {
        name: in_a_sentence(each for each in drifting or () if each.event == name)
        for name in sorted(told)
    }
    short = {name.removeprefix("newsift_").removesuffix("_info"): v for name, v in found.items()}
    drift = None if drifting is None else in_a_sentence(drifting) or TOO_FEW
    return short | {
        "refused_seeds": refused, "drift": drift, "events": events, "bursts": bursts,
    }  # fmt: skip


def _got(address: str, path: str) -> tuple[int, bytes]:
    host, _, port = address.rpartition(":")
    link = HTTPConnection(host.strip("[]"), int(port), timeout=ANSWER_S)
    try:
        link.request("GET", path)
        answer = link.getresponse()
        return answer.status, _body(answer)
    finally:
        link.close()


def _body(answer: HTTPResponse) -> bytes:
    """An answer as far as it is not too large, or too slow."""
    found, ends_at = bytearray(), time.monotonic() + ANSWER_S
    while (piece := answer.read1(2**16)) and len(found) < LARGEST:
        if time.monotonic() > ends_at:
            raise TimeoutError("too slow")
        found += piece
    return bytes(found)
