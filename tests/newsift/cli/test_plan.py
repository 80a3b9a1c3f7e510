import json
from pathlib import Path

import msgspec
import pytest

from newsift.operations.capacity import SHIPPED, LoadBurst, plan, read_costs
from tests.worker.fake import Command

RATE = ("--rate", "6000", "--seeds", "1000")


def test_json_is_the_plan(newsift: Command) -> None:
    done = newsift("plan", *RATE, "--burst", "3", "--drain", "600", "--share", "0.1", "--json")
    assert (done.code, done.err) == (0, "")
    made = plan(read_costs().with_share(0.1), 6000, 1000, LoadBurst(3, 600))
    assert json.loads(done.out) == msgspec.to_builtins(made)


def test_other_costs_make_another_plan(newsift: Command, tmp_path: Path) -> None:
    costs = json.loads(SHIPPED.read_bytes()) | {"python_us": 1e6}
    (tmp_path / "costs.json").write_text(json.dumps(costs))
    done = newsift("plan", *RATE, "--costs", str(tmp_path / "costs.json"), "--json")
    assert json.loads(done.out)["workers"] > 6000


@pytest.mark.parametrize(
    "args",
    [
        ("--rate", "0", "--seeds", "1"), ("--rate", "1", "--seeds", "-1"), ("--rate", "1"),
        ("--seeds", "1"), (*RATE, "--drain", "9"), (*RATE, "--burst", "0.5"),
        (*RATE, "--burst", "2", "--drain", "0"), (*RATE, "--costs", "none.json"),
        (*RATE, "--share", "2"), ("--rate", "many", "--seeds", "1"),
    ],
)  # fmt: skip
def test_what_is_refused_is_one_line(newsift: Command, args: tuple[str, ...]) -> None:
    done = newsift("plan", *args)
    assert (done.code, done.out) == (2, "")
    assert done.err.count("\n") == 1
