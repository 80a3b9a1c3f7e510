"""A feed of this machine, and the command that follows it one time."""

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

import newsift.cli.seeds
from newsift.web.client import RequestLimits
from newsift.web.feeds import PoliteWeb
from tests.worker.command_topics import Kafka
from tests.worker.fake_command import Command, Outcome
from tests.worker.fake_web_server import Site, serving


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch, read_in_process: None) -> Iterator[Site]:
    """A site of this machine, as if it stood in the open web and did not mind haste."""
    follow = newsift.cli.seeds
    monkeypatch.setattr(follow, "PUBLIC_FEEDS", RequestLimits(allow=lambda *_: True))
    monkeypatch.setattr(follow, "PoliteWeb", partial(PoliteWeb, pause_s=0.0))
    with serving(Site()) as result:
        yield result


@pytest.fixture
def once(newsift: Command, site: Site, kafka: Kafka) -> Any:
    def call(*more: object) -> Outcome:
        return newsift("seeds", "follow", f"{site.url}/feed", "--once", *more)

    return call
