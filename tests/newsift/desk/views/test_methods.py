"""The methods paragraph: each number is recomputed from the topics, and none is invented."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from newsift.desk.session import Desk
from newsift.desk.views import export
from tests.newsift.desk.matched import HOSTILE, HOUR, NOON, label, many, publish, record, told
from tests.worker.kafka_side import MATCHES, POSTS, SEEDS, Kafka
from tests.worker.learned import profile_value
from worker.config import load_config

MADE = many(11, 80)
GROUP = "newsift-ingest"
PROMISE = {
    "precision": 0.8, "confidence": 0.9, "version": 1, "labels": 19, "on": 18, "matches": 200,
    "rate": 0.001, "at": "2026-11-22T11:56:14Z", "by": "anna",
}  # fmt: skip


@pytest.fixture
def desk(kafka: Kafka) -> Iterator[Desk]:
    made = Desk(load_config())
    made.mirrors.start()
    yield made
    made.stop()


def text(desk: Desk, **asked: Any) -> str:
    given = {"event": "ferry"} | {name: str(value) for name, value in asked.items()}
    endpoint = export.summary
    found: Any = endpoint.answer(desk, endpoint.question(given, strict=False))
    return str(found["methods"])


def kappa(pairs: list[tuple[str, str]]) -> float:
    """Cohen's κ, by its definition."""
    n = len(pairs)
    same = sum(a == b for a, b in pairs) / n
    ones, others = Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    chance = sum(ones[word] * others[word] / n / n for word in ones)
    return (same - chance) / (1 - chance)


def test_nothing_is_known_of_nothing(desk: Desk) -> None:
    said = text(desk)
    assert "No post matched." in said
    assert "No post was labelled." in said
    for unknown in ("the model", "the threshold", "the precision", "the recall", "seed articles"):
        assert unknown in said.partition("Not known: ")[2]
    digits = re.sub(r"version \S+\)|2019|2001\.03303", "", said)
    assert re.findall(r"\d+", digits) == ["0"]  # messages that were read


def test_posts_stories_and_times_are_those_of_the_topic(desk: Desk, kafka: Kafka) -> None:
    publish(kafka, MADE)
    kafka.fill(POSTS, [b"{}"] * 30, 1)
    kafka.commit(GROUP, POSTS, {1: 21})
    posts = {each["post"]["id"]: each for each in MADE}
    times = [each["source"]["timestamp"] for each in posts.values()]
    said = text(desk)
    assert f"{len(posts)} posts matched ({len(MADE)} records)" in said
    assert f"came from {told(min(times))} to {told(max(times))}" in said
    assert f"tell {len({each['group'] for each in posts.values()})} distinct stories" in said
    assert "the workers read 21 messages" in said
    assert f"The model is {'ab' * 32}." in said
    assert f"The set of seeds is {'5' * 12}." in said
    assert "The least score of a match is 0.2500." in said


def test_the_window_and_the_least_score_narrow_it(desk: Desk, kafka: Kafka) -> None:
    publish(kafka, MADE)
    window = {"since": told(NOON + 6 * HOUR), "until": told(NOON + 30 * HOUR)}
    own = {
        each["post"]["id"]
        for each in MADE
        if 6 <= (each["source"]["timestamp"] - NOON) / HOUR < 30
        and each["matches"][0]["score"] >= 0.5
    }
    said = text(desk, **window, threshold=0.5)
    assert f"{len(own)} posts matched" in said
    assert f"The window is from {window['since']} until {window['until']}" in said
    assert "with a score of at least 0.5 are counted" in said


def test_seeds_sets_and_models_that_changed_are_all_named(desk: Desk, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns", "event": "ferry"}', b"fire")
    kafka.send(SEEDS, b'{"text": "A match", "event": "game"}', b"game")
    publish(kafka, [record("1", 0.5), record("2", 0.6, seed_set="6" * 12), record("3", 0.4,
            model="cd" * 32, match={"threshold": 0.31})])  # fmt: skip
    said = text(desk)
    assert "described by 1 seed article, by id and version: fire (" in said
    assert "game" not in said
    assert f"set of seeds changed: {'5' * 12} for 2 posts, {'6' * 12} for 1 post" in said
    assert f"{'ab' * 32} for 2 posts, {'cd' * 32} for 1 post" in said
    assert "The least score of a match is 0.2500 to 0.3100, by what" in said
    assert "how many distinct stories" in said.partition("Not known: ")[2]


def test_a_profile_tells_how_it_was_made_and_what_it_promises(desk: Desk, kafka: Kafka) -> None:
    value = profile_value("ferry", {"a": "storm flood"}, threshold=0.6, promise=PROMISE)
    kafka.send(SEEDS, value, b"profile|ferry")
    version = _version(value)
    by = {"seed_id": "profile|ferry", "seed_version": version, "threshold": 0.6}
    publish(kafka, [record("1", 0.7, match=by), record("2", 0.5)])
    said = text(desk)
    assert f"1 of 2 posts were compared with a profile of the event ({version} for 1 post)" in said
    assert (
        "stands for 1 seed: method: seeds, posts, background, β 0.6, γ 0.5, learned from 2 posts, "
        "and 3 labels, made at 2026-11-22T10:00:00Z."
    ) in said
    assert "a precision of at least 0.8 was shown at a confidence of 0.9" in said
    assert "18 of 19 labels of matches drawn at random were on the event, of 200 matches" in said
    assert "a person set it for profile|ferry" in said


def test_a_profile_that_is_gone_tells_nothing_of_another(desk: Desk, kafka: Kafka) -> None:
    by = {"seed_id": "profile|ferry", "seed_version": "0" * 12}
    publish(kafka, [record("1", 0.7, match=by)])
    kafka.send(SEEDS, profile_value("ferry", {"a": "storm"}), b"profile|ferry")
    said = text(desk)
    assert "β" not in said
    assert "how the profile was made" in said.partition("Not known: ")[2]


def test_labels_by_draw_and_agreement(desk: Desk, kafka: Kafka) -> None:
    words = ["on", "off", "unsure"]
    anna = {f"p{n}": words[n * n % 3] for n in range(9)}
    bea = {f"p{n}": words[n % 3] for n in range(4, 12)}
    for name, said in anna.items():
        label(kafka, name, said)
    for name, said in bea.items():
        label(kafka, name, said, by="bea", drawn="learn", probability=None)
    label(kafka, "p1", "on", by="carl", event="game")
    told_of = text(desk)
    count = Counter(anna.values()), Counter(bea.values())
    assert f"2 judges gave {len(anna) + len(bea)} labels on {len({*anna, *bea})} posts" in told_of
    for name, each in zip(("drawn at random from the matches", "chosen near"), count, strict=True):
        numbers = f"{each['on']} on, {each['off']} off, {each['unsure']} unsure"
        assert re.search(rf"{each.total()} {name}[^;]*\({numbers}\)", told_of)
    pairs = [(anna[name], bea[name]) for name in anna if name in bea]
    assert f"both labelled (Cohen's κ {kappa(pairs):.3f})" in told_of
    assert f"the {len(pairs)} posts that both" in told_of


@pytest.mark.parametrize("same", [True, False])
def test_the_background_rate_is_told_only_where_the_matches_bear_it_out(
    desk: Desk, kafka: Kafka, same: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(kafka, [record("1", 0.5)])
    made = SimpleNamespace(digest=("5" if same else "7") * 12)
    monkeypatch.setattr(desk.model, "view", lambda: SimpleNamespace(seeds=made))
    said = text(desk)
    assert ("a share of 0.001 of the model's background reaches" in said) is same
    assert ("the background rate" in said.partition("Not known: ")[2]) is not same


def test_hostile_names_and_numbers_stay_in_their_place(desk: Desk, kafka: Kafka) -> None:
    by = {"seed_id": HOSTILE, "seed_version": "x\n\n# " + "y" * 9999, "threshold": 1e300}
    publish(kafka, [record("1", 0.5, event=HOSTILE, model="\u202e" * 20 + "m" * 9999, match=by)])
    odd = {"precision": "0.8", "confidence": [], "labels": 1, "on": True, "matches": 10**40}
    made = {"beta": "x", "gamma": 1e300, "posts": 3, "at": {}, "labels": None}
    kafka.send(SEEDS, profile_value(HOSTILE, {"a": "storm"}, promise=odd, made=made),
               f"profile|{HOSTILE}".encode())  # fmt: skip
    said = text(desk, event=HOSTILE)
    assert len(said) < 6000
    assert said.replace("\n", "").isprintable()
    assert "a precision of at least" not in said
    file: Any = export.methods_file.answer(desk, export.MethodsFile(event=HOSTILE, form="md"))
    page = file.content.getvalue().decode()
    assert "\n#" not in page[1:]
    assert "<" not in page.replace("\\<", "")


def test_a_topic_that_is_missing_is_told_in_a_line(
    desk: Desk, kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_TOPICS__MATCHES", "nowhere")
    other = Desk(load_config())
    with pytest.raises(Exception, match="has no topic 'nowhere'"):
        text(other)
    other.stop()
    assert kafka.records(MATCHES) == []


def _version(value: bytes) -> str:
    """The first digits of the SHA-256 of the vectors, as the contract has it."""
    from hashlib import sha256

    return sha256(json.loads(value)["vectors"].encode()).hexdigest()[:12]
