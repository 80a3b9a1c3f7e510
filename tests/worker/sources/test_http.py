"""What answers mean and addresses are, by hand."""

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest
from aiohttp import RequestInfo, TooManyRedirects
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from encoder.errors import InputError
from worker.errors import AccessError, ConfigError
from worker.sources.http import (
    LONGEST_WAIT_S,
    answered,
    endpoint,
    excerpt,
    losing,
    retry_after,
    token,
)
from worker.sources.source import BUSY, LIMITED, MALFORMED, LostError


@pytest.mark.parametrize(
    ("said", "seconds"),
    [("7", 7), ("0", 0), ("", 0), ("-3", 0), ("soon", 0), ("9" * 5000, LONGEST_WAIT_S),
     ("²", 0), ("Wed, 01 Jan 2020 00:00:00 GMT", 0), ("Fri, 31 Dec 9999 23:59:59 GMT", 3600)],
)  # fmt: skip
def test_how_long_to_stay_away(said: str, seconds: float) -> None:
    assert retry_after({"Retry-After": said}) == seconds
    assert retry_after({}) == 0


def test_a_date_is_so_many_seconds_away() -> None:
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 40 < retry_after({"Retry-After": soon}) <= 100


@pytest.mark.parametrize(
    ("status", "kind"),
    [(429, LIMITED), (500, BUSY), (503, BUSY), (408, BUSY), (425, BUSY), (302, BUSY)],
)
def test_what_waiting_cures_is_lost(status: int, kind: str) -> None:
    found = answered(status, {"Retry-After": "3"}, "it answers", "do this")
    assert isinstance(found, LostError)
    assert (found.reason, found.wait) == (kind, 3)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
def test_what_waiting_does_not_cure_is_refused(status: int) -> None:
    found = answered(status, {}, "it answers", "do this")
    assert isinstance(found, AccessError)
    assert str(found) == "it answers; do this"


@pytest.mark.parametrize("url", ["ws://h/a?b=1", "wss://[::1]:8/a", "ws://h:80"])
def test_an_address_is_taken_as_it_is(url: str) -> None:
    assert endpoint(url, "ws", "wss").scheme in ("ws", "wss")


@pytest.mark.parametrize(
    "url", ["", "h/a", "http://h/a", "ws://", "ws:///a", "ws://h:x/", "ws://[/", "ws://h:99999/"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(InputError, match=r"^--url: .* ws or wss"):
        endpoint(url, "ws", "wss")


def test_a_refusal_shows_no_secret_of_an_address() -> None:
    with pytest.raises(InputError) as refused:
        endpoint("gopher://user:secret@h/a?token=hidden", "ws", "wss")
    assert "secret" not in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_a_token_comes_from_a_file_else_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    env = {"T": " from-the-environment "}
    for given, wanted in ((file, "from-a-file"), (None, "from-the-environment")):
        found = token("T", given, env)
        assert found is not None
        assert (found.reveal(), str(found)) == (wanted, "***")
    assert token("T", None, {}) is None
    for odd in ("zwei wörter", "a\nb"):
        with pytest.raises(ConfigError, match=r"^T: ") as refused:
            token("T", None, {"T": odd})
        assert odd not in str(refused.value)


def test_what_somebody_else_wrote_is_short_and_steers_nothing() -> None:
    assert excerpt(b"a\x1b[2J\nb\xff" + b"c" * 999)[:12] == "a [2J b\ufffdcccc"
    assert len(excerpt("x" * 999)) == 200


def test_redirects_in_a_circle_are_named() -> None:
    asked = RequestInfo(URL("wss://h/a"), "GET", CIMultiDictProxy(CIMultiDict()), URL("wss://h/a"))
    with pytest.raises(LostError, match=r"^h/a: redirects again and again$") as lost, losing("h/a"):
        raise TooManyRedirects(asked, ())
    assert lost.value.reason == MALFORMED
