from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from encoder.errors import InputError
from newsift.collect.http import (
    EventParser,
    LineParser,
    answer_error,
    connection_errors,
    parse_endpoint,
    read_body,
    read_token,
    require_no_login,
)
from newsift.collect.source import BUSY, LIMITED, MALFORMED, STALLED, LostError
from newsift.web.client import client_session, stream_timeout
from tests.worker.fake_web_server import Site, dripping, moved, serving
from worker.errors import AccessError, ConfigError


@given(st.binary(max_size=80), st.lists(st.integers(0, 80), max_size=6))
def test_lines_survive_any_chunking(whole: bytes, cuts: list[int]) -> None:
    parser, result = LineParser(), list[bytes]()
    places = sorted({min(cut, len(whole)) for cut in cuts})
    for low, high in zip([0, *places], [*places, len(whole)], strict=True):
        result += parser.feed(whole[low:high])
    assert result == whole.split(b"\n")[:-1]


ENDS = st.sampled_from(["\n", "\r", "\r\n"])
LINE = st.sampled_from(["", ":thump", "event: update", "data: {}", "data:x", "data", "id: 1", "a"])


def by_lines(lines: list[str]) -> list[tuple[str, bytes]]:
    """The events of lines, by a loop that follows the page step by step."""
    result: list[tuple[str, bytes]] = []
    name, data = "", list[str]()
    for line in lines:
        if line == "":
            if data:
                result.append((name or "message", "\n".join(data).encode()))
            name, data = "", []
        elif line[0] == ":":
            result.append(("", b""))
        else:
            field, value = line, ""
            if ":" in line:
                field, value = line.split(":", 1)
                value = value[1:] if value[:1] == " " else value
            if field == "event":
                name = value
            if field == "data":
                data.append(value)
    return result


@given(st.lists(st.tuples(LINE, ENDS), max_size=20), st.data())
def test_events_survive_any_chunking(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    for i, (line, end) in enumerate(lines[:-1]):  # \r before an empty line's \n would be one end
        if end == "\r" and lines[i + 1] == ("", "\n"):
            lines[i] = line, "\n"
    whole = "".join(line + end for line, end in lines).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=8)))
    parser, result = EventParser(), list[tuple[str, bytes]]()
    for low, high in zip([0, *cuts], [*cuts, len(whole)], strict=True):
        result += parser.feed(whole[low:high])
    assert result == by_lines([line for line, _ in lines])


@pytest.mark.parametrize("kind", [LineParser, EventParser])
@pytest.mark.parametrize("part", [b"x" * 60, b"data: " + b"x" * 50])
def test_gives_up_what_has_no_end(kind: type[LineParser | EventParser], part: bytes) -> None:
    parser = kind(max_bytes=100)
    list(parser.feed(part))
    with pytest.raises(LostError, match="more than 100 bytes"):
        list(parser.feed(3 * part))


@pytest.mark.parametrize(
    ("status", "reason"), [(429, LIMITED), (500, BUSY), (503, BUSY), (408, BUSY), (302, BUSY)]
)
def test_an_answer_is_a_lost_connection_or_a_refusal(status: int, reason: str) -> None:
    result = answer_error("h", status, {"Retry-After": "3"}, "", "do this")
    assert isinstance(result, LostError)
    assert (result.reason, result.wait) == (reason, 3)
    for refusal in (400, 401, 403, 404, 410):
        assert isinstance(answer_error("h", refusal, {}, "words", "do this"), AccessError)


@pytest.mark.parametrize(
    "url", ["", "h/a", "ws:///a", "ws://h:x/", "ws://[/", "http://user:hidden@h/a?token=hidden"]
)
def test_refuses_another_address_and_shows_no_secret(url: str) -> None:
    with pytest.raises(InputError, match=r"^--url: .* ws or wss") as caught:
        parse_endpoint(url, "ws", "wss")
    assert "hidden" not in str(caught.value)


def test_a_token_comes_from_a_file_else_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-a-file\n")
    env = {"T": " from-the-environment "}
    for token_file, token in ((file, "from-a-file"), (None, "from-the-environment")):
        result = read_token("T", token_file, env)
        assert (result.reveal(), str(result)) == (token, "***")
    with pytest.raises(ConfigError, match=r"^T: is not set; "):
        read_token("T", None, {})
    for odd in ("zwei wörter", "a\nb"):
        with pytest.raises(ConfigError, match=r"^T: ") as caught:
            read_token("T", None, {"T": odd})
        assert odd not in str(caught.value)


async def test_netrc_replaces_no_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with serving(Site()) as site:
        async with client_session(stream_timeout(30)) as client:
            await client.get(site.url, headers={"Authorization": "Bearer t"})
    assert [headers["Authorization"] for _, headers in site.asked] == ["Bearer t"]


async def test_an_answer_that_drips_is_a_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.collect.http.MAX_RESPONSE_S", 0.2)
    with dripping(b"HTTP/1.1 200 OK\r\n\r\n") as (port, _):
        async with (
            client_session(stream_timeout(30)) as client,
            client.get(f"http://127.0.0.1:{port}/") as answer,
        ):
            with pytest.raises(LostError) as lost, connection_errors("there"):
                await read_body(answer, 10**6)
    assert lost.value.reason == STALLED


async def test_a_redirect_in_a_circle_shows_nothing_of_its_address() -> None:
    path = "/?access_token=hidden"
    with serving(Site()) as site:
        site.replies[path] = moved(path)
        async with client_session(stream_timeout(30)) as client:
            with pytest.raises(LostError) as lost, connection_errors("there"):
                await client.get(site.url + path)
    assert (lost.value.reason, "hidden" in str(lost.value)) == (MALFORMED, False)


def test_refuses_a_login_beside_a_token() -> None:
    with pytest.raises(InputError, match=r"^--url: holds a login") as caught:
        require_no_login(URL("https://me:secret@h/a"))
    assert "secret" not in str(caught.value)
