"""Imported before workers are forked: every kernel a worker runs is loaded by then, once."""

import time

from tests.worker.small_encoder import mail, seed_set, small_encoder
from worker.match.pipeline import Pipeline
from worker.stream.flow import group_matches
from worker.stream.ledger import Batch
from worker.stream.partitions import Tenures

MESSAGES = [mail("1", "storm flood river city")]
OUTCOME = Pipeline(small_encoder()).run(MESSAGES, seed_set(None), lambda: str(time.time()))
assert OUTCOME.matched == 1
group_matches(Batch(0, MESSAGES), OUTCOME, Tenures(0))
