"""Which articles are on the control topic already."""

from newsift.operations.feeds import ArticleIndex
from worker.seeds.record import Seed, read_seed
from worker.seeds.state import control_state

ARTICLE = b'{"text": "A ferry burns.", "url": "https://news.example/a"}'


def seed(name: str) -> Seed:
    content = read_seed(name.encode(), ARTICLE)
    assert isinstance(content, Seed)
    return content


def test_a_draft_counts_once_and_what_is_deleted_no_more() -> None:
    index = ArticleIndex()
    index.update(control_state({b"a": ARTICLE}))
    for name in ("a", "b"):
        index.add(seed(name))
    assert (len(index), "b" in index, index.version("b")) == (2, True, seed("b").version)
    index = ArticleIndex()
    index.update(control_state({b"a": ARTICLE}))
    assert "news.example/a" in next(iter(index.by_link))
    index.update(control_state({b"bad": b"{"}))
    assert (len(index), "a" in index, index.by_link, index.by_version) == (1, False, {}, {})
