"""What a worker's metrics say of drift, for `newsift status`."""

from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

from prometheus_client.parser import text_string_to_metric_families

from worker.config import WebConfig
from worker.judge.drift import Drifting, in_a_sentence
from worker.watch.site import PORT

ANSWER_S = 1.0
LARGEST = 2**22  # bytes of a page
NAMES = {"newsift_pass_ratio": "passes", "newsift_high_share": "high"}
TOO_FEW = "too few posts have come to tell"


def metrics_address(web: WebConfig) -> str:
    """Where the metrics of the worker with this configuration are, seen from this machine."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(web.host, web.host)
    return f"http://{f'[{host}]' if ':' in host else host}:{web.port or PORT}/metrics"


def drift_at(address: str) -> str | None:
    """What is said of drift there; None where nobody answers with metrics of a worker."""
    try:
        with build_opener(ProxyHandler({})).open(address, timeout=ANSWER_S) as answer:
            page = answer.read(LARGEST).decode()
        found = drifting_in(page)
    except (URLError, OSError, ValueError):
        return None
    return None if found is None else in_a_sentence(found) or TOO_FEW


def drifting_in(page: str) -> Iterable[Drifting] | None:
    """Where seeds and events stand, by the text of a worker's metrics; None if it is none."""
    rows: defaultdict[tuple[str, str], dict[str, Any]] = defaultdict(dict)
    families = list(text_string_to_metric_families(page))
    for family in families:
        for sample in family.samples if family.name in NAMES else ():
            name = sample.labels.get("event", ""), sample.labels.get("seed", "")
            rows[name][NAMES[family.name]] = sample.value
    known = {family.name for family in families}
    return [Drifting(*name, **row) for name, row in rows.items()] if NAMES.keys() <= known else None
