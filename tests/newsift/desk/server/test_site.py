import asyncio
import io
import json
import logging
import re
from collections.abc import Callable, Iterator
from email.message import Message
from functools import partial
from urllib.parse import unquote

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import worker.metrics.visits
from newsift.desk.api import MAX_LINE_CHARS, Download, log_action
from newsift.desk.site import (
    CHUNK_BYTES,
    MAX_REQUEST_BYTES,
    MAX_REQUESTS,
    MAX_STREAMS,
    static_files,
)
from newsift.desk.views.seeds import DraftRequest, DraftsAction, publish
from tests.newsift.desk.server.raw_visits import DONE, FILES, HELD, Visitor, visited
from tests.worker.raw_http import Reply, read_all
from worker.log import AUDIT_LOGGER, JsonLine, OneLine

NOT_THERE = [
    "/metrics", "/index.html", "/desk.css/", "//", "/..", "/../newsift/desk/desk.py",
    "/%2e%2e/desk.py", "/pages/..%2f..%2fdesk.py", "/.git/x", "/desk.js%00.css", "/api",
    "/api/echo/", "/" + "a" * 4000,
]  # fmt: skip


def request(path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Reply:
    return visited(lambda visitor: visitor.ask(path, method, body, **headers))


def test_an_answer_has_the_messages_of_the_action() -> None:
    result = visited(lambda visitor: visitor.do("hello"))
    assert result.json == {"answer": 1, "messages": ["said hello"]}
    assert result.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("word", "status", "reason"),
    [
        ("refused", 409, "word: is refused; give another"),
        ("lost", 502, "Kafka at nowhere does not answer"),
        ("broken", 500, "ZeroDivisionError: by zero"),
        (1, 400, "word: Expected `str`, got `int`"),
    ],
)
def test_a_refusal_has_a_status_and_a_reason(word: object, status: int, reason: str) -> None:
    result = visited(lambda visitor: visitor.do(word))
    assert (result.status, result.json) == (status, {"reason": reason})


@pytest.mark.parametrize("path", NOT_THERE)
def test_other_paths_are_refused(path: str) -> None:
    result = request(path)
    assert result.status in (400, 404)
    assert set(result.json) == {"reason"}
    assert b"Traceback" not in result.body


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE", "PATCH", "X", "CONNECT"])
def test_other_methods_are_refused(method: str) -> None:
    for path in ("/", "/api/echo", "/api/say", "/api/login", "/api/changes"):
        result = request(path, method)
        assert result.status in (400, 404, 405)
        assert "access-control-allow-origin" not in result.headers


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/api/say?by=Ann&word=x"), ("POST", "/api/echo"), ("HEAD", "/api/changes")],
)
def test_an_endpoint_has_one_method(method: str, path: str) -> None:
    assert request(path, method).status == 405


def test_every_answer_has_the_headers_of_a_safe_page() -> None:
    for path in ("/", "/api/echo", "/nothing", "/icon.svg"):
        result = request(path)
        policy = result.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert result.headers["x-content-type-options"] == "nosniff"


def test_an_unchanged_file_is_not_sent_again() -> None:
    for path, page in static_files().items():
        result = request(path)
        assert (result.status, result.body) == (200, page.content)
        again = request(path, If_None_Match=result.headers["etag"])
        assert (again.status, again.body) == (304, b"")


@pytest.mark.parametrize(
    "body",
    [
        b"", b"\xff", b"null", b'{"by": "\xff", "word": "x"}', b'{"by": "Ann", "word": "\\ud800"}',
        b'{"by": "", "word": "x"}', json.dumps({"by": "a" * 81, "word": "x"}).encode(),
        b'{"by": "Ann", "word": "x", "other": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"by": "Ann", "word": "x", "times": 1e999}',
    ],
)  # fmt: skip
def test_an_invalid_body_is_refused(body: bytes) -> None:
    result = request("/api/say", "POST", body)
    assert (result.status, set(result.json)) == (400, {"reason"})
    assert len(result.json["reason"]) < 200


def test_a_body_above_the_limit_is_refused() -> None:
    frame = len(b'{"by": "Ann", "word": ""}')
    for length, status in ((MAX_REQUEST_BYTES - frame, 200), (MAX_REQUEST_BYTES - frame + 1, 400)):
        result = visited(partial(Visitor.do, word="x" * length))
        assert result.status == status
        assert status == 200 or "8,388,608 bytes" in result.json["reason"]
    assert len(DONE[-1].word) == MAX_REQUEST_BYTES - frame


@given(query=st.text(max_size=60), path=st.sampled_from(["/api/echo", "/api/say", "/"]))
def test_any_query_is_answered(query: str, path: str) -> None:
    text = query.translate({ord(c): None for c in " \r\n\t\x00"}).encode("utf-8", "surrogatepass")
    raw = b"GET %s?%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (path.encode(), text)
    assert Reply.of(visited(lambda visitor: visitor.raw(raw))).status in (200, 400, 405)


def test_a_read_only_desk_refuses_actions() -> None:
    done = len(DONE)
    result = visited(lambda visitor: visitor.do("x"), read_only=True)
    assert result.status == 403
    assert "--read-only" in result.json["reason"]
    assert visited(lambda visitor: visitor.ask("/api/echo"), read_only=True).status == 200
    assert len(DONE) == done


def test_requests_above_the_limit_are_refused() -> None:
    async def visit(visitor: Visitor) -> list[int]:
        HELD.clear()
        waiting = [asyncio.create_task(visitor.ask("/api/held")) for _ in range(MAX_REQUESTS)]
        while visitor.site._requests < MAX_REQUESTS:
            await asyncio.sleep(0.01)
        over = await visitor.ask("/api/echo")
        assert (await visitor.ask("/")).status == 200  # the page itself opens all the same
        HELD.set()
        return [over.status, *(reply.status for reply in await asyncio.gather(*waiting))]

    assert visited(visit) == [503, *[200] * MAX_REQUESTS]


def test_streams_are_limited_and_end_with_the_desk() -> None:
    async def visit(visitor: Visitor) -> None:
        pages = [await visitor.follow_changes() for _ in range(MAX_STREAMS)]
        assert (await visitor.ask("/api/changes")).status == 503
        await visitor.site.stop()
        await asyncio.gather(*(read_all(reader) for reader, _ in pages))
        for _, writer in pages:
            writer.close()

    visited(visit)


def test_a_stream_names_what_changed() -> None:
    async def visit(visitor: Visitor) -> list[str]:
        reader, writer = await visitor.follow_changes()
        await reader.readuntil(b"\n\n")
        visitor.site._shown.changes.notify("matches", "seeds")
        text = await reader.readuntil(b"}")
        writer.close()
        numbers = json.loads(text[text.index(b"{") :])
        return [part for part, number in numbers.items() if number]

    assert visited(visit) == ["matches", "seeds"]


def test_a_page_that_reads_no_stream_is_disconnected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.desk.site.MAX_MESSAGE_S", 0.2)
    monkeypatch.setattr("newsift.desk.site.EVENT_STREAM", {})
    monkeypatch.setattr(worker.metrics.visits, "MAX_REQUEST_S", 0.2)

    async def flood(_changes: object) -> object:
        while True:
            yield b"x" * 2**20

    monkeypatch.setattr("newsift.desk.changes.Changes.stream", flood)

    async def visit(visitor: Visitor) -> None:
        _, writer = await visitor.connect("/api/changes", limit=1)
        while not visitor.site.streams:
            await asyncio.sleep(0.01)
        while visitor.site.streams:
            await asyncio.sleep(0.01)
        writer.close()

    visited(visit)


@pytest.fixture
def audit(caplog: pytest.LogCaptureFixture) -> Iterator[Callable[[], list[str]]]:
    """The audit's records so far."""
    with caplog.at_level(logging.INFO, AUDIT_LOGGER):
        yield lambda: [each.getMessage() for each in caplog.records if each.name == AUDIT_LOGGER]


ACTED = 'say.word by "Ann" from 127.0.0.1: {"word":"%s","times":1}: '
AUDITED = [("hello", "done"), ("refused", "word: is refused; give another")]


@pytest.mark.parametrize(("word", "outcome"), AUDITED)
def test_the_audit_names_user_action_address_and_outcome(
    audit: Callable[[], list[str]], word: str, outcome: str
) -> None:
    visited(lambda visitor: visitor.do(word))
    visited(lambda visitor: visitor.ask("/api/echo"))
    assert audit() == [ACTED % word + outcome]


def test_refused_actions_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    visited(lambda visitor: visitor.do("x"), read_only=True)
    visited(lambda visitor: visitor.do("x", Origin="http://evil.example"))
    visited(lambda visitor: visitor.do("x"), token="a" * 16)
    visited(lambda visitor: visitor.do(1))
    lines = [each.getMessage() for each in caplog.records if each.name == "newsift.desk"]
    assert [line.split(":")[0] for line in lines] == ["say.word from 127.0.0.1"] * 4


def test_a_record_of_the_audit_is_one_short_line(audit: Callable[[], list[str]]) -> None:
    word = "\n\x1b[31m\u202e " + "z" * 100_000
    visited(lambda visitor: visitor.do(word))
    (line,) = audit()
    assert len(line) < 2500
    created = logging.LogRecord(AUDIT_LOGGER, logging.INFO, __file__, 1, line, None, None)
    assert OneLine("%(message)s").format(created).isprintable()
    assert json.loads(JsonLine().format(created))["message"] == line


def test_a_user_name_cannot_forge_a_record(audit: Callable[[], list[str]]) -> None:
    body = json.dumps({"by": 'Ann" from 127.0.0.1: {}: done', "word": "x"}).encode()
    visited(lambda visitor: visitor.ask("/api/say", "POST", body))
    by = audit()[0].removeprefix("say.word by ")
    assert msgspec.json.decode(by[: by.index(' from 127.0.0.1: {"')]) == json.loads(body)["by"]


def test_the_audit_names_each_of_several_long_articles(caplog: pytest.LogCaptureFixture) -> None:
    values = [
        DraftRequest(f"seed-{n}", '{"text": "' + "x" * 10_000 + '"}', "a.md") for n in range(5)
    ]
    with caplog.at_level(logging.INFO):
        log_action(publish, DraftsAction(by="ada", drafts=values), "done", "127.0.0.1")
    (text,) = caplog.messages
    assert all(f'"seed-{n}"' in text for n in range(5))
    assert len(text) < MAX_LINE_CHARS + 100


@pytest.mark.parametrize("size", [0, 1, CHUNK_BYTES, 3 * CHUNK_BYTES + 7])
def test_a_file_is_sent_whole_and_closed(size: int) -> None:
    content = io.BytesIO(bytes(n % 251 for n in range(size)))
    expected = content.getvalue()
    FILES.append(Download("newsift-ferry.csv", "text/csv", content))
    result = request("/api/file")
    assert result.body == expected
    assert result.headers["content-length"] == str(size)
    assert result.headers["content-type"] == "text/csv"
    assert result.headers["cache-control"] == "no-store"
    assert content.closed


def test_a_client_that_disconnects_leaves_nothing_open(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "newsift.desk")
    content = io.BytesIO(bytes(2**26))
    FILES.append(Download("a", "text/csv", content))

    async def visit(visitor: Visitor) -> None:
        reader, writer = await visitor.connect("/api/file")
        await reader.readexactly(100)
        writer.transport.abort()
        async with asyncio.timeout(20):
            while not content.closed:
                await asyncio.sleep(0.01)

    visited(visit)
    assert "was not sent to its end" in caplog.text


def test_a_file_name_keeps_its_letters_beside_a_plain_form() -> None:
    text = Download("newsift-\u202eüber.csv", "text/csv", io.BytesIO()).headers
    plain, _, full = text["Content-Disposition"].rpartition("''")
    assert (unquote(full), 'filename="newsift-ber.csv"' in plain) == ("newsift-über.csv", True)


@given(st.text(max_size=300))
def test_no_file_name_is_a_path(name: str) -> None:
    given_name = f"newsift-{name}.csv"
    text = Download(given_name, "text/csv", io.BytesIO()).headers["Content-Disposition"]
    assert text.isascii()
    assert text.isprintable()
    read = Message()
    read["Content-Disposition"] = text
    result = read.get_filename() or ""
    assert re.search(r"[/\\\s\"<>|:*?]", result) is None
    assert not result.startswith(".")
    assert result.endswith(".csv")
