"""A feed of this machine, and the command that follows it one time."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import worker.actions.seeds.round
import worker.cli.seeds.follow
from tests.worker.cli.seeds.feed_side import Site, news_site
from tests.worker.fake import Command, Outcome
from tests.worker.kafka_side import Kafka
from tests.worker.loaded_once import _loaded_once, enc
from worker.actions.seeds.fetch import Bounds
from worker.actions.seeds.polite import PoliteWeb
from worker.files.articles.extract import extracted

__all__ = ["_loaded_once", "enc"]


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Site]:
    """A site of this machine, as if it stood in the open web and did not mind haste."""
    monkeypatch.setenv("NEWSIFT_STATE", str(tmp_path / "state"))
    follow = worker.cli.seeds.follow
    monkeypatch.setattr(follow, "OPEN", Bounds(allow=lambda _: True))
    monkeypatch.setattr(follow, "PoliteWeb", partial(PoliteWeb, pause=0.0))
    monkeypatch.setattr(worker.actions.seeds.round, "article_of", extracted)
    with news_site() as found:
        yield found


@pytest.fixture
def once(newsift: Command, site: Site, kafka: Kafka) -> Any:
    def call(*more: object) -> Outcome:
        return newsift("seeds", "follow", f"{site.url}/feed", "--once", *more)

    return call
