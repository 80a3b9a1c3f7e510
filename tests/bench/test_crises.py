from pathlib import Path

import numpy as np
import pytest

from bench.crises import NEWS, crises_among_news, profile_threshold
from newsift.statistics.feedback import learn
from tests.worker.small_encoder import small_encoder
from train.data.readers import TrainingArticle
from train.protocol.sets import CrisisSet
from worker.seeds.automatic import Reader, split_background


@pytest.mark.parametrize("reader", ["read", "skim"])
def test_a_threshold_is_of_the_rows_that_do_not_train_as_the_posts_are_seen(
    monkeypatch: pytest.MonkeyPatch, reader: Reader
) -> None:
    crisis = CrisisSet(
        "flood", (TrainingArticle("storm", "flood river city"),), ("storm flood",), ("cat",), ()
    )
    for name, answer in {
        "files": {NEWS: Path()}, "read_posts": ["the cat", "a city"], "read_crises": [crisis],
    }.items():  # fmt: skip
        monkeypatch.setattr(f"bench.crises.{name}", lambda *_, answer=answer: answer)
    enc = small_encoder()
    (result,) = crises_among_news(enc, Path(), reader)
    training, calibrating = split_background(enc.background.read)
    assert result.posts.skimmed == result.calibrating.skimmed == (reader == "skim")
    assert np.array_equal(result.calibrating.lexical.slots, calibrating.lexical.slots)
    assert 0 < len(calibrating) < len(enc.background) == len(training) + len(calibrating)
    vector = learn(result.seeds, result.background).vector
    scores = sorted(vector.scores(result.calibrating).tolist(), reverse=True)
    rate = 3 / len(calibrating)
    threshold = profile_threshold(vector, result.calibrating, rate)
    assert threshold == pytest.approx(max(scores[2], 0), abs=1e-5)
