"""Near misses of an event, as the workers tell of them."""

from collections.abc import Callable, Sequence
from urllib.parse import quote

import msgspec

from worker.actions.told import say
from worker.actions.workers import WRONG, answer_of, worker_addresses
from worker.config import Config
from worker.judge.draw import Candidate
from worker.judge.reservoir import NearAnswer, merged

WAIT_S = 5.0
WHERE = "on the ports 6066 to 6075 of this machine"
REMEDY = "desk.workers names the workers"

_read = msgspec.json.Decoder(NearAnswer).decode


def near_misses(
    config: Config, event: str, cluster_id: Callable[[], str]
) -> tuple[list[Candidate], float | None]:
    """Those of all workers together, and the event's threshold; one that is away is told of."""
    answers = near_answers(config, event, cluster_id)
    return candidates_in(answers), next((each.threshold for each in answers if each.edges), None)


def near_answers(config: Config, event: str, cluster_id: Callable[[], str]) -> list[NearAnswer]:
    """What each worker tells of an event; one that is away is told of."""
    addresses = worker_addresses(config, cluster_id)
    if not addresses:
        say(f"no worker of this Kafka and group answers {WHERE}: no near misses; {REMEDY}")
    return [each for each in (_asked(address, event) for address in addresses) if each]


def candidates_in(answers: Sequence[NearAnswer]) -> list[Candidate]:
    """The near misses that several workers tell of, stratum by stratum."""
    strata = zip(*(answer.strata for answer in answers), strict=False)
    return [near for parts in strata for near in merged(parts).candidates()]


def _asked(address: str, event: str) -> NearAnswer | None:
    try:
        status, body = answer_of(address, f"/near?event={quote(event, safe='')}", WAIT_S)
        if status == 200:
            return _read(body)
        why = "it keeps none of this event" if status == 404 else f"HTTP {status}"
    except WRONG as error:
        why = type(error).__name__
    say(f"worker {address}: tells of no near misses ({why}); {REMEDY}")
    return None
