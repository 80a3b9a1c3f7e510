"""What decides on the dev split."""

import numpy as np
import pytest

from train.loop.dev import decisive


def test_pairs_decide_where_there_are_any() -> None:
    figures = {"a mAP": 0.5, "b mAP": 0.7, "flood AUC off": 0.99, "flood AUC background": 0.9}
    assert decisive(figures) == pytest.approx((0.5 + 0.7) / 2)


def test_crises_decide_where_there_are_no_pairs() -> None:
    aucs = {"flood AUC off": 0.8, "flood AUC background": 0.9, "flood P@R80": 0.1}
    assert decisive(aucs) == pytest.approx(np.mean([0.8, 0.9]))
    assert decisive({}) == 0
