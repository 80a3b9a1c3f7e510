"""What the audit says of an action with much in it."""

import logging

import pytest

from newsift.desk.api import LINE_CHARS, log_action
from newsift.desk.views.seeds import DraftRequest, DraftsAction, publish


def test_of_several_long_articles_each_is_named(caplog: pytest.LogCaptureFixture) -> None:
    values = [
        DraftRequest(f"seed-{n}", '{"text": "' + "x" * 10_000 + '"}', "a.md") for n in range(5)
    ]
    with caplog.at_level(logging.INFO):
        log_action(publish, DraftsAction(by="ada", drafts=values), "done", "127.0.0.1")
    (text,) = caplog.messages
    assert all(f'"seed-{n}"' in text for n in range(5))
    assert len(text) < LINE_CHARS + 100
