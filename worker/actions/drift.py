"""What a worker's metrics say of drift, for `newsift status`."""

from collections import defaultdict
from collections.abc import Iterable
from itertools import chain
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from worker.actions.workers import WRONG, answer_of
from worker.judge.drift import Drifting, in_a_sentence

ANSWER_S = 1.0
NAMES = {"newsift_pass_ratio": "passes", "newsift_high_share": "high"}
TOO_FEW = "too few posts have come to tell"


def drift_at(addresses: Iterable[str]) -> str | None:
    """What these workers say of drift; None where nobody answers with metrics of a worker."""
    pages = [found for found in map(_drifting_at, addresses) if found is not None]
    return in_a_sentence(chain.from_iterable(pages)) or TOO_FEW if pages else None


def _drifting_at(address: str) -> Iterable[Drifting] | None:
    try:
        return drifting_in(answer_of(address, "/metrics", ANSWER_S)[1].decode())
    except WRONG:
        return None


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
