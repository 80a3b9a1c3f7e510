import json
from pathlib import Path

from tests.train.data_folder import write
from tests.worker.fake_command import Command


def test_the_bench_of_seeds_shows_that_a_total_rate_has_less_read(
    newsift: Command, tmp_path: Path
) -> None:
    words = [f"word{number}" for number in range(3_000)]
    text = " ".join(words)
    articles, posts = tmp_path / "articles.jsonl", tmp_path / "posts.jsonl"
    write(articles, [{"title": "t", "article": text}])
    write(posts, ({"text": " ".join(words[at : at + 8])} for at in range(0, 3_000, 8)))
    done = newsift(
        "bench", "seeds", "--data", str(posts), "--articles", str(articles),
        "--seeds", "2,20", "--posts", "300", "--json",
    )  # fmt: skip
    two, twenty = json.loads(done.out)["seeds"]["rows"]
    assert (two["seeds"], twenty["seeds"]) == (2, 20)
    assert twenty["then read %"] <= twenty["posts read %"]
    assert twenty["raised by"] > 0
