"""`newsift bench costs`: costs that explain the runs which they were fitted to."""

import pytest

from bench.costs import Fitted, Reading, Run, Sizes, frames, others, prediction
from worker.posts.read import Post, read_post


def reading(run: Run) -> Reading:
    """What a run costs where costs are linear."""
    return Reading(
        cpu_us=20 + run.seeds * 0.005 + run.share * 250,
        start_s=1.5 + run.seeds * 0.0004,
        memory_mb=400 + run.seeds * 0.02,
    )


def test_linear_costs_are_recovered_and_predict_other_runs() -> None:
    fitted = Fitted.up_to(12_000)
    costs = fitted.costs(
        {run: reading(run) for run in fitted}, 5.0, Sizes(480, 200), Sizes(900, 250)
    )
    result = [costs.python_us, costs.encode_us, costs.match_ns, costs.matched_us]
    assert result == pytest.approx([15, 5, 5, 250])
    assert [costs.start_s, costs.start_ms] == pytest.approx([1.5, 0.4])
    assert [costs.memory_mb, costs.memory_kb] == pytest.approx([400, 20])
    tried = {run: reading(run) for run in others(12_000)}
    assert not tried.keys() & set(fitted)
    for row in prediction(costs, tried, "predicted", "").rows:
        assert row[1] == pytest.approx(row[2])
        assert row[3] in ("+0%", "-0%")


def test_its_posts_are_read_as_bluesky_s_and_compress_as_ids_do() -> None:
    records = list(frames(["one", "zwei ü"], 300))
    posts = [post for _, value in records if isinstance(post := read_post(value), Post)]
    assert [post.text for post in posts[:3]] == ["one", "zwei ü", "one"]
    assert {post.platform for post in posts} == {"bluesky"}
    assert len({post.id for post in posts}) == 300
    sizes = Sizes.of(records)
    assert 350 < sizes.plain < 400
    assert 60 < sizes.packed < 100  # 89 of its letters have 5 bits of chance
