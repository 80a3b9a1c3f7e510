"""The workers' own web servers: whether each is ready, and what it says of itself."""

from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from worker.actions.drift import TOO_FEW, drifting_in
from worker.actions.workers import WRONG, answer_of
from worker.judge.drift import in_a_sentence

ANSWER_S = 2.0
AT_ONCE = 8
LONGEST = 300  # characters of what one says
INFO = {"newsift_model_info": "digest", "newsift_seed_set_info": "digest",
        "newsift_version_info": "version"}  # fmt: skip
NUMBERS = ("newsift_paused", "newsift_offsets_lost_total")
SUMS = ("newsift_unreadable_batches_total", "newsift_lag_posts")
MOST_OF = ("newsift_open_transaction_seconds",)

Row = dict[str, Any]


def asked_all(addresses: Iterable[str]) -> list[Row]:
    """What each says of itself, asked at the same time."""
    with ThreadPoolExecutor(AT_ONCE, "desk-worker") as hands:
        return list(hands.map(asked, addresses))


def asked(address: str) -> Row:
    """What a worker says of itself; `away` says why it says nothing."""
    row: Row = {"address": address, "away": "", "ready": False, "reason": "", "drift": None}
    try:
        status, body = answer_of(address, "/readyz", ANSWER_S)
        said = msgspec.json.decode(body)
        reason = said.get("reason") if isinstance(said, dict) else None
        row |= {"ready": status == 200, "reason": str(reason or "")[:LONGEST]}
        status, body = answer_of(address, "/metrics", ANSWER_S)
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
