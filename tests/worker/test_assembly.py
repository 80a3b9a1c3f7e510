"""What a configuration makes of the pipeline that the worker, the filter and the backfill share."""

import json
from collections import Counter

from tests.worker.small import mail, seed_set, small_encoder
from worker.assembly import assembled
from worker.config import Config, PostsConfig

LANGS = ["en", "de", "en-GB", None, "und"]


def test_posts_in_other_languages_are_passed_over() -> None:
    text = "storm flood river in the city"
    messages = [mail(str(n), text, n, lang=lang) for n, lang in enumerate(LANGS)]
    pipeline, _ = assembled(small_encoder(), Config(posts=PostsConfig(langs="en")))
    outcome = pipeline.run(messages, seed_set(), lambda: "now")
    result = [json.loads(record.value or b"")["post"]["id"] for record in outcome.records]
    assert result == ["0", "2", "3", "4"]
    assert outcome.passed_over == Counter(other_language=1)
    everything, _ = assembled(small_encoder(), Config())
    assert everything.run(messages, seed_set(), lambda: "now").matched == len(LANGS)
