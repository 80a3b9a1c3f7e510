"""Near misses of an event, as the workers tell of them."""

from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from urllib.parse import quote

import msgspec

from worker.actions.told import say
from worker.config import Config
from worker.judge.draw import Candidate
from worker.judge.reservoir import NearAnswer, merged

WAIT_S = 5.0
LARGEST = 2**24  # bytes of an answer
WRONG = (OSError, HTTPException, msgspec.MsgspecError, UnicodeError, ValueError)

_read = msgspec.json.Decoder(NearAnswer).decode


def near_misses(config: Config, event: str) -> tuple[list[Candidate], float | None]:
    """Those of all workers together, and the event's threshold; one that is away is told of."""
    answers = near_answers(config, event)
    return candidates_in(answers), next((each.threshold for each in answers if each.edges), None)


def near_answers(config: Config, event: str) -> list[NearAnswer]:
    """What each worker tells of an event; one that is away is told of."""
    return [each for each in (_asked(w.strip(), event) for w in _workers(config)) if each]


def candidates_in(answers: Sequence[NearAnswer]) -> list[Candidate]:
    """The near misses that several workers tell of, stratum by stratum."""
    strata = zip(*(answer.strata for answer in answers), strict=False)
    return [near for parts in strata for near in merged(parts).candidates()]


def _workers(config: Config) -> Sequence[str]:
    return config.desk.workers.split(",")


def _asked(address: str, event: str) -> NearAnswer | None:
    host, _, port = address.rpartition(":")
    link = HTTPConnection(host.strip("[]"), int(port), timeout=WAIT_S)
    try:
        link.request("GET", f"/near?event={quote(event, safe='')}")
        answer = link.getresponse()
        body = answer.read(LARGEST)
        if answer.status == 200:
            return _read(body)
        why = "it keeps none of this event" if answer.status == 404 else f"HTTP {answer.status}"
    except WRONG as error:
        why = type(error).__name__
    finally:
        link.close()
    say(f"worker {address}: tells of no near misses ({why}); desk.workers names the workers")
    return None
