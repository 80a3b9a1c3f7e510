import json
import re
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder import Embeddings, Encoder
from newsift.cli.background import WINDOWS_PER_PARTITION, offset_spans, windows
from tests.newsift.cli.test_backfill import ABOUT, SEED, post
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, SEEDS, Kafka

NOUNS = ["cake", "walk", "park", "bus", "music", "rain", "shop", "tea", "garden", "film", "dog"]
RATE = "0.01"


@pytest.fixture(autouse=True)
def _with_a_coarse_rate(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NEWSIFT_MATCHING__BACKGROUND_RATE", RATE)
    monkeypatch.delenv("NEWSIFT_CONFIG", raising=False)
    monkeypatch.chdir(tmp_path)


def everyday(count: int) -> list[str]:
    rng = np.random.default_rng(5)
    return [f"{' '.join(rng.choice(NOUNS, 4))} number {i}" for i in range(count)]


def test_builds_from_the_topic_without_matches(
    newsift: Command, kafka: Kafka, enc: Encoder
) -> None:
    texts = everyday(400)
    for partition in range(3):
        kafka.fill(POSTS, [post(t, t) for t in texts[partition::3]], partition)
    kafka.fill(
        POSTS, [post("a", ABOUT), post("b", "RT @x: " + texts[0]), post("c", "🌊"), b"{broken"]
    )
    kafka.send(SEEDS, SEED, b"ferry-fire")
    done = newsift("background", "build", "--from-topic", "--json", "--out", "own.safetensors")
    assert done.code == 0, done.err
    assert "404 messages read; left out: 1 no posts, 1 without words, 1 copies, 1 near" in done.err
    assert "beyond" not in done.err
    output = json.loads(done.out)
    assert output["posts"] == 400
    assert output["source"] == f"{POSTS} of {kafka.address}"
    assert output["first"] <= output["last"] <= output["made"]
    expected = enc.posts(texts).dense
    result = Embeddings.load("own.safetensors").dense
    assert {row.tobytes() for row in result} == {row.tobytes() for row in expected}
    assert json.loads(newsift("status", "--json").out)["state"] == "dead"  # no group was there


def test_show_describes_a_file_or_the_shipped_background(newsift: Command, enc: Encoder) -> None:
    rows = ({"text": t, "author": str(i)} for i, t in enumerate(everyday(500)))
    Path("posts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert newsift("background", "build", "posts.jsonl", "--posts", "400").code == 0
    output = json.loads(newsift("background", "show", "background.safetensors", "--json").out)
    assert output["rates"][-1] == {"rate": 0.01, "tail": 4, "spread": 0.5}
    assert re.search("posts +400\n", newsift("background", "show", "background.safetensors").out)
    shipped = json.loads(newsift("background", "show", "--json").out)
    assert (shipped["posts"], shipped["model"]) == (len(enc.background), enc.digest)


BOUNDS = st.tuples(st.integers(0, 10**9), st.integers(0, 10**6))


@given(BOUNDS, st.floats(1e-7, 3), st.integers())
def test_windows_are_apart_and_inside(bounds: tuple[int, int], share: float, seed: int) -> None:
    begin, end = bounds[0], bounds[0] + bounds[1]
    result = list(windows(begin, end, share, Random(seed)))
    assert len(result) <= WINDOWS_PER_PARTITION + 1
    flat = [begin, *(offset for window in result for offset in window), end]
    assert flat == sorted(flat)
    assert all(low < high for low, high in result)
    if share >= 1:
        assert result == ([(begin, end)] if begin < end else [])


@pytest.mark.parametrize(("size", "share"), [(100, 0.5), (1000, 0.05), (700, 0.3), (50, 0.01)])
def test_each_offset_is_as_likely_as_another(size: int, share: float) -> None:
    tries = 4000
    hits, random = [0] * size, Random(7)
    for _ in range(tries):
        for low, high in windows(10, 10 + size, share, random):
            for offset in range(low, high):
                hits[offset - 10] += 1
    mean = sum(hits) / size / tries
    assert mean == pytest.approx(share, rel=0.35)
    deviation = (mean * (1 - mean) * tries) ** 0.5
    assert max(abs(count - mean * tries) for count in hits) < 5 * deviation


def test_rounds_read_as_much_of_each_partition_as_it_has() -> None:
    begins, ends = {0: 100, 1: 0, 2: 5}, {0: 64_100, 1: 6_400, 2: 5}
    read = dict.fromkeys(ends, 0)
    for start, end in offset_spans(begins, ends, 7040, Random(1)):
        assert start.keys() == end.keys() == ends.keys()
        for n in ends:
            assert start[n] == end[n] == ends[n] or begins[n] <= start[n] < end[n] <= ends[n]
            read[n] += end[n] - start[n]
    assert read[0] == pytest.approx(6400, rel=0.05)
    assert read[1] == pytest.approx(640, rel=0.05)
    assert read[2] == 0
    begins, ends = {0: 3, 1: 0}, {0: 10, 1: 4}
    assert list(offset_spans(begins, ends, 100, Random(1))) == [(begins, ends)]
    assert list(offset_spans({0: 7}, {0: 7}, 100, Random(1))) == []
