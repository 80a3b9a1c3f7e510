"""What is wished of a profile, whatever its record says: anybody may have written it."""

import math
from typing import Any

import pytest

from newsift.operations.events import PromiseTarget
from tests.worker.learned import profile
from tests.worker.small import ARTICLES
from worker.seeds.profile import Profile


def wish(**promise: Any) -> PromiseTarget:
    return PromiseTarget.of(
        Profile(**profile("storm", {"flood": ARTICLES["flood"]}, promise=promise))
    )


def test_a_version_keeps_its_share_of_the_error() -> None:
    assert wish(version=7).version == 7
    assert wish(version=7).test_confidence == pytest.approx(1 - 0.1 * 6 / (49 * math.pi**2))


@pytest.mark.parametrize("version", [10**400, 10**30, -1, 0, True, "7", [], None, 1e9])
def test_a_version_that_nobody_tested_is_counted_anew(version: object) -> None:
    assert wish(version=version).version > 0
    assert 0 < wish(version=version).test_confidence < 1
