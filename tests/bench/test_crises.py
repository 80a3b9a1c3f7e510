import numpy as np
import pytest

from bench.crises import profile_threshold
from encoder.errors import InputError
from newsift.statistics.feedback import learn
from tests.newsift.statistics.test_feedback import plain, plain_profile, texts
from worker.seeds.automatic import split_background


def test_a_threshold_uses_only_the_calibrating_side() -> None:
    rng = np.random.default_rng(5)
    background = texts(rng, 400)
    vector = learn(texts(rng, 2, about=3), background).vector
    _, calibrating = split_background(background)
    scores = sorted(plain(calibrating) @ plain_profile(vector), reverse=True)
    reach = round(0.02 * len(calibrating))
    result = profile_threshold(vector, background, 0.02)
    assert result == pytest.approx(scores[reach - 1], abs=1e-5)
    with pytest.raises(InputError, match=r"rate: 0\.001 is finer"):
        profile_threshold(vector, background, 0.001)
