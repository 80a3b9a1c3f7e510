"""The site: what is asked and done, and what strangers may cost it."""

import asyncio
import json
import logging
from functools import partial

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import worker.metrics.visits
from newsift.desk.api import Endpoint
from newsift.desk.site import LARGEST, MOST_REQUESTS, MOST_STREAMS, static_files
from tests.newsift.desk.server.visiting import (
    DONE,
    ENDPOINTS,
    HELD,
    Reply,
    Visitor,
    heard,
    listened,
    visited,
)  # fmt: skip
from worker.log import AUDIT, JsonLine, OneLine

NOT_THERE = [
    "/metrics", "/healthz", "/seeds", "/near", "/index.html", "/desk.css/", "//", "/..",
    "/../newsift/desk/desk.py", "/%2e%2e/desk.py", "/pages/..%2f..%2fdesk.py", "/lib", "/.git/x",
    "/desk.js%00.css", "/DESK.JS", "/api", "/api/echo/", "/" + "a" * 4000,
]  # fmt: skip


def asked(path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Reply:
    return visited(lambda visitor: visitor.ask(path, method, body, **headers))


def test_an_answer_has_what_was_said_on_the_way() -> None:
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
def test_a_refusal_is_one_line(word: object, status: int, reason: str) -> None:
    result = visited(lambda visitor: visitor.do(word))
    assert (result.status, result.json) == (status, {"reason": reason})


@pytest.mark.parametrize("path", NOT_THERE)
def test_what_is_not_the_desk_s_is_not_there(path: str) -> None:
    result = asked(path)
    assert result.status in (400, 404)
    assert set(result.json) == {"reason"}
    assert b"Traceback" not in result.body


@pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "TRACE", "PATCH", "X", "CONNECT"])
@pytest.mark.parametrize("path", ["/", "/api/echo", "/api/say", "/api/login", "/api/changes"])
def test_nothing_but_asking_and_doing(method: str, path: str) -> None:
    result = asked(path, method)
    assert result.status in (400, 404, 405)
    assert "access-control-allow-origin" not in result.headers


def test_an_action_is_not_done_by_a_link() -> None:
    assert asked("/api/say?by=Ann&word=x").status == 405
    assert asked("/api/echo", "POST", b"{}").status == 405


def test_every_answer_tells_the_browser_to_load_nothing_from_elsewhere() -> None:
    for path in ("/", "/api/echo", "/nothing", "/icon.svg"):
        result = asked(path)
        policy = result.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert result.headers["x-content-type-options"] == "nosniff"


def test_files_are_asked_for_again_only_when_they_changed() -> None:
    for path, page in static_files().items():
        result = asked(path)
        assert (result.status, result.body) == (200, page.content)
        again = asked(path, If_None_Match=result.headers["etag"])
        assert (again.status, again.body) == (304, b"")


def test_a_head_alone_can_be_asked_for_but_not_of_what_goes_on() -> None:
    result = asked("/", "HEAD")
    assert (result.status, result.body) == (200, b"")
    assert asked("/api/changes", "HEAD").status == 405


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"\xff", b"null", b"[]", b'{"by": "\xff", "word": "x"}', b"{}" * 2,
        b'{"by": "Ann", "word": "\\ud800"}', b'{"by": "", "word": "x"}', b'{"by": 1, "word": "x"}',
        json.dumps({"by": "a" * 81, "word": "x"}).encode(), b"[" * 100_000 + b"]" * 100_000,
        b'{"by": "Ann", "word": "x", "other": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"by": "Ann", "word": "x", "times": 1e999}', b'{"by": "Ann", "word": "x", "times": true}',
    ],
)  # fmt: skip
def test_a_question_that_is_none_is_refused_in_a_line(body: bytes) -> None:
    result = asked("/api/say", "POST", body)
    assert (result.status, set(result.json)) == (400, {"reason"})
    assert len(result.json["reason"]) < 200


def test_the_largest_question_is_taken_and_a_larger_one_refused_in_words() -> None:
    frame = len(b'{"by": "Ann", "word": ""}')
    for length, status in ((LARGEST - frame, 200), (LARGEST - frame + 1, 400)):
        result = visited(partial(Visitor.do, word="x" * length))
        assert result.status == status
        assert status == 200 or "8,388,608 bytes" in result.json["reason"]
    assert len(DONE[-1].word) == LARGEST - frame


def test_one_that_never_ends_is_hung_up_on() -> None:
    async def visit(visitor: Visitor) -> bytes:
        head = b"POST /api/say HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        return await visitor.raw(
            head + b"Content-Length: 99999999\r\n\r\n" + b"x" * (2**24 + 2**20)
        )

    assert visited(visit) == b""


@given(query=st.text(max_size=60), path=st.sampled_from(["/api/echo", "/api/say", "/"]))
def test_any_address_is_answered_in_order(query: str, path: str) -> None:
    text = query.translate({ord(c): None for c in " \r\n\t\x00"}).encode("utf-8", "surrogatepass")
    raw = b"GET %s?%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % (path.encode(), text)
    assert Reply.of(visited(lambda visitor: visitor.raw(raw))).status in (200, 400, 405)


@pytest.mark.parametrize("path", ["/api/echo?word=%ff", "/api/echo?times=x", "/api/echo?times=%00"])
def test_an_address_that_cannot_be_read_is_refused_or_taken_as_text(path: str) -> None:
    assert asked(path).status in (200, 400)


def test_a_desk_that_only_shows_does_nothing_whatever_is_asked() -> None:
    done = len(DONE)
    result = visited(lambda visitor: visitor.do("x"), read_only=True)
    assert result.status == 403
    assert "--read-only" in result.json["reason"]
    assert visited(lambda visitor: visitor.ask("/api/echo"), read_only=True).status == 200
    assert len(DONE) == done


def test_many_questions_at_once_are_few_at_a_time_and_the_rest_sent_away() -> None:
    async def visit(visitor: Visitor) -> list[int]:
        HELD.clear()
        waiting = [asyncio.create_task(visitor.ask("/api/held")) for _ in range(MOST_REQUESTS)]
        while visitor.site._requests < MOST_REQUESTS:
            await asyncio.sleep(0.01)
        over = await visitor.ask("/api/echo")
        assert (await visitor.ask("/")).status == 200  # the page itself opens all the same
        HELD.set()
        return [over.status, *(reply.status for reply in await asyncio.gather(*waiting))]

    assert visited(visit) == [503, *[200] * MOST_REQUESTS]


def test_who_does_not_take_an_answer_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker.metrics.visits, "LONGEST_S", 0.3)

    async def visit(visitor: Visitor) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", visitor.site.port, limit=1)
        writer.write(b"GET /api/echo?word=x&times=50000000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert await reader.read(1) == b"H"
        assert visitor.site._runner is not None
        assert visitor.site._runner.server is not None
        while visitor.site._runner.server.connections:
            await asyncio.sleep(0.01)
        writer.close()

    visited(visit)


Page = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def beats(visitor: Visitor, count: int) -> list[Page]:
    """So many pages that hear the beats."""
    pages = []
    for _ in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", visitor.site.port)
        writer.write(b"GET /api/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await reader.readuntil(b"event: change")
        pages.append((reader, writer))
    return pages


def test_so_many_pages_and_no_more_and_all_of_them_end_with_the_desk() -> None:
    async def visit(visitor: Visitor) -> None:
        pages = await beats(visitor, MOST_STREAMS)
        assert (await visitor.ask("/api/changes")).status == 503
        await visitor.site.stop()
        await asyncio.gather(*(heard(reader) for reader, _ in pages))
        for _, writer in pages:
            writer.close()

    visited(visit)


def test_a_page_hears_of_what_moved_and_of_nothing_else() -> None:
    async def visit(visitor: Visitor) -> list[str]:
        ((reader, writer),) = await beats(visitor, 1)
        await reader.readuntil(b"\n\n")
        visitor.site._desk.changes.notify("matches", "seeds")
        text = await reader.readuntil(b"}")
        writer.close()
        numbers = json.loads(text[text.index(b"{") :])
        return [part for part, number in numbers.items() if number]

    assert visited(visit) == ["matches", "seeds"]


def test_a_page_that_takes_no_beat_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("newsift.desk.site.STREAM_S", 0.2)
    monkeypatch.setattr("newsift.desk.site.STREAM", {})
    monkeypatch.setattr(worker.metrics.visits, "LONGEST_S", 0.2)

    async def flood(_pulse: object) -> object:
        while True:
            yield b"x" * 2**20

    monkeypatch.setattr("newsift.desk.changes.Changes.stream", flood)

    async def visit(visitor: Visitor) -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", visitor.site.port, limit=1)
        writer.write(b"GET /api/changes HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while not visitor.site._streams:
            await asyncio.sleep(0.01)
        while visitor.site._streams:
            await asyncio.sleep(0.01)
        writer.close()

    visited(visit)


ACTED = 'say.word by "Ann" from 127.0.0.1: {"word":"%s","times":1}: '
AUDITED = [("hello", "done"), ("refused", "word: is refused; give another")]


@pytest.mark.parametrize(("word", "outcome"), AUDITED)
def test_the_audit_has_who_did_what_from_where_and_how_it_ended(word: str, outcome: str) -> None:
    with listened(AUDIT) as lines:
        visited(lambda visitor: visitor.do(word))
        visited(lambda visitor: visitor.ask("/api/echo"))
    assert lines == [ACTED % word + outcome]


def test_who_was_turned_away_is_told_too() -> None:
    with listened("newsift.desk") as lines:
        visited(lambda visitor: visitor.do("x"), read_only=True)
        visited(lambda visitor: visitor.do("x", Origin="http://evil.example"))
        visited(lambda visitor: visitor.do("x"), token="a" * 16)
        visited(lambda visitor: visitor.do(1))
    assert [line.split(":")[0] for line in lines] == ["say.word from 127.0.0.1"] * 4


def test_a_line_of_the_audit_is_one_however_large_and_whatever_it_holds() -> None:
    word = "\n\x1b[31m\u202e " + "z" * 100_000
    with listened(AUDIT) as lines:
        visited(lambda visitor: visitor.do(word))
    (line,) = lines
    assert len(line) < 2500
    created = logging.LogRecord(AUDIT, logging.INFO, __file__, 1, line, None, None)
    assert OneLine("%(message)s").format(created).isprintable()
    assert json.loads(JsonLine().format(created))["message"] == line


def test_no_name_can_write_a_line_of_another() -> None:
    body = json.dumps({"by": 'Ann" from 127.0.0.1: {}: done', "word": "x"}).encode()
    with listened(AUDIT) as lines:
        visited(lambda visitor: visitor.ask("/api/say", "POST", body))
    by = lines[0].removeprefix("say.word by ")
    assert msgspec.json.decode(by[: by.index(' from 127.0.0.1: {"')]) == json.loads(body)["by"]


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda endpoint: str(endpoint.path))
def test_what_acts_is_asked_for_by_post_alone(endpoint: Endpoint) -> None:
    result = asked(endpoint.path, "GET" if endpoint.audit_name else "POST")
    assert result.status == 405


@pytest.mark.parametrize("pair", [b";", b"a=b;"])
def test_megabytes_of_cookies_are_refused_before_they_are_parsed(pair: bytes) -> None:
    head = b"GET /api/echo HTTP/1.1\r\nHost: localhost\r\nCookie: "
    result = visited(lambda visitor: visitor.raw(head + pair * (2**20 // len(pair)) + b"\r\n\r\n"))
    assert Reply.of(result).status == 431
