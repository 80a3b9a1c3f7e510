"""Imported before workers are forked: every kernel a worker runs is loaded by then, once."""

import time
from types import SimpleNamespace

from encoder.encoder import Encoder
from encoder.readers.choose import open_readers
from tests.encoder.small_model import small_model
from worker.match.pipeline import Pipeline
from worker.seeds.automatic import ThresholdRules
from worker.seeds.embedder import SeedEmbedder
from worker.seeds.state import parse_control_state
from worker.stream.flow import group_matches
from worker.stream.ledger import Batch
from worker.stream.partitions import Tenures


def warm_up() -> None:
    model = small_model()
    enc = Encoder(model, open_readers(model, "cpu", 1))
    state = parse_control_state({b"seed": b'{"text": "storm flood", "threshold": 0.001}'})
    seeds = SeedEmbedder(enc, ThresholdRules(0.01)).make(state)
    message = SimpleNamespace(
        topic="t", partition=0, offset=0, timestamp=0, key=None, headers=(),
        value=b'{"id": "1", "text": "storm flood"}',
    )  # fmt: skip
    outcome = Pipeline(enc).run([message], seeds, lambda: str(time.time()))
    assert outcome.matched == 1
    group_matches(Batch(0, [message]), outcome, Tenures(0))


warm_up()
