import json

import msgspec

from newsift.operations.capacity import LoadBurst, plan_capacity, read_costs
from tests.worker.fake import Command

RATE = ("--rate", "6000", "--seeds", "1000")


def test_json_is_the_plan(newsift: Command) -> None:
    done = newsift("plan", *RATE, "--burst", "3", "--drain", "600", "--share", "0.1", "--json")
    assert (done.code, done.err) == (0, "")
    made = plan_capacity(read_costs().with_share(0.1), 6000, 1000, LoadBurst(3, 600))
    assert json.loads(done.out) == msgspec.to_builtins(made)
