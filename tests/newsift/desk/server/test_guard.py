import asyncio

import pytest

from newsift.desk.guard import MAX_IDLE_S, MAX_SESSIONS, Sessions
from newsift.desk.views import ENDPOINTS
from tests.newsift.desk.server.raw_visits import TOKEN, Visitor, visited
from tests.worker.raw_http import Reply

BEARER = f"Bearer {TOKEN}"


async def logged_in(visitor: Visitor) -> str:
    reply = await visitor.ask("/api/login", "POST", Authorization=BEARER)
    assert reply.status == 200, reply
    return reply.headers["set-cookie"]


def request(headers: dict[str, str | None], **how: object) -> Reply:
    async def visit(visitor: Visitor) -> Reply:
        port = str(visitor.site.port)
        own = {name: value and value.replace("PORT", port) for name, value in headers.items()}
        return await visitor.do("x", **own)

    return visited(visit, **how)  # type: ignore[arg-type]


OTHERS = [
    "null", "", "file://", "http://evil.example", "http://127.0.0.1", "http://127.0.0.1:1",
    "http://localhost:PORT", "http://127.0.0.1:PORT.evil.example", "ftp://127.0.0.1:PORT",
    "http://127.0.0.1:PORT/", "http://x@127.0.0.1:PORT", "//127.0.0.1:PORT", "\udcff",
]  # fmt: skip
OWN = {"Sec_Fetch_Site": "same-origin"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        *(({"Origin": origin}, 403) for origin in OTHERS),
        (OWN | {"Origin": "http://127.0.0.1:PORT"}, 200),
        (OWN | {"Origin": "https://127.0.0.1:PORT"}, 200),  # behind a proxy with TLS
        ({"Content_Type": "text/plain"}, 415),  # what a form of another page could send
        ({"Content_Type": "application/x-www-form-urlencoded"}, 415),
        ({"Content_Type": None}, 415),
        ({"Content_Encoding": "identity"}, 415),
        ({"Host": "evil.example"}, 421),
        ({"Host": ""}, 421),
    ],
)
def test_an_action_is_done_for_the_own_page_alone(
    headers: dict[str, str | None], status: int
) -> None:
    assert request(headers).status == status


@pytest.mark.parametrize("site", ["cross-site", "same-site", "", "Same-Origin", "nonsense"])
def test_a_cross_site_request_is_refused(site: str) -> None:
    async def visit(visitor: Visitor) -> list[int]:
        answers = [
            await visitor.ask("/api/echo", Sec_Fetch_Site=site),
            await visitor.ask("/api/changes", Sec_Fetch_Site=site),
            await visitor.do("x", Sec_Fetch_Site=site),
        ]
        return [answer.status for answer in answers]

    assert visited(visit) == [403, 403, 403]


def test_an_origin_without_a_host_is_refused() -> None:
    """As a page of a file might name itself, to a desk that is open to others."""
    result = request({"Host": "", "Origin": "null", "Authorization": BEARER}, host="0.0.0.0",
                  token=TOKEN)  # fmt: skip
    assert result.status == 403


def test_without_the_token_only_the_page_is_served() -> None:
    async def visit(visitor: Visitor) -> list[int]:
        answers = [
            *[await visitor.ask(f"/api/{name}") for name in ("echo", "changes")],
            await visitor.do("x"),
            await visitor.do("x" * 8_000_000),
            await visitor.do("x", Cookie="newsift_desk_x=\udcff; a=b"),
            *[await visitor.ask(path) for path in ("/", "/desk.js")],
        ]
        return [answer.status for answer in answers]

    assert visited(visit, token=TOKEN) == [401, 401, 401, 401, 401, 200, 200]


def test_no_endpoint_of_the_desk_answers_without_the_token() -> None:
    async def visit(visitor: Visitor) -> set[int]:
        cookie = f"newsift_desk_{visitor.site.port}"
        replies = [
            await visitor.ask(each.path, "POST" if each.audit_name else "GET", b"{}", Cookie=shown)
            for each in ENDPOINTS
            for shown in (None, f"{cookie}=x; {cookie}=")
        ]
        return {reply.status for reply in replies}

    assert visited(visit, token=TOKEN, endpoints=ENDPOINTS) == {401}


def test_the_token_begins_a_session_with_a_cookie_that_no_script_reads() -> None:
    async def visit(visitor: Visitor) -> str:
        cookie = await logged_in(visitor)
        pair = cookie.split(";")[0]
        assert (await visitor.do("x", Cookie=pair)).status == 200
        assert (await visitor.do("x", Cookie=pair[:-1])).status == 401
        assert (await visitor.do("x", Cookie=pair.replace("=", "2="))).status == 401
        assert pair.startswith(f"newsift_desk_{visitor.site.port}=")
        assert (await logged_in(visitor)).split(";")[0] != pair
        return cookie

    cookie = visited(visit, token=TOKEN)
    assert {"HttpOnly", "SameSite=Strict"} <= {part.strip() for part in cookie.split(";")}
    assert TOKEN not in cookie
    assert "Secure" not in cookie
    assert request({"Authorization": BEARER}, token=TOKEN).status == 200  # as a script does


def test_with_tls_before_it_the_cookie_is_secure() -> None:
    async def visit(visitor: Visitor) -> str:
        origin = f"https://127.0.0.1:{visitor.site.port}"
        reply = await visitor.ask("/api/login", "POST", Authorization=BEARER, Origin=origin)
        return reply.headers["set-cookie"]

    assert "Secure" in visited(visit, token=TOKEN)


@pytest.mark.parametrize(
    "data", ["Bearer ", "Bearer x", f"Basic {TOKEN}", TOKEN, "Bearer \udcff", ""]
)
def test_a_wrong_token_is_refused(data: str) -> None:
    async def visit(visitor: Visitor) -> list[int]:
        replies = await asyncio.gather(
            visitor.ask("/api/login", "POST", Authorization=data),
            visitor.do("x", Authorization=data),
        )
        return [reply.status for reply in replies]

    assert visited(visit, token=TOKEN) == [401, 401]


def test_a_login_is_refused_to_another_origin_and_without_a_token_to_all() -> None:
    def login(token: str | None, data: str, origin: str | None = None) -> int:
        return visited(
            lambda visitor: visitor.ask("/api/login", "POST", Authorization=data, Origin=origin),
            token=token,
        ).status

    assert login(TOKEN, BEARER, "http://evil.example") == 401
    assert login(None, "Bearer ") == 401


def test_a_body_without_the_token_is_refused_early() -> None:
    async def visit(visitor: Visitor) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", visitor.site.port)
        writer.write(
            b"POST /api/say HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            b"Content-Length: 8000000\r\n\r\n{"
        )
        result = await reader.readline()
        writer.close()
        return result

    assert visited(visit, token=TOKEN).split(b" ")[1] == b"401"


@pytest.mark.parametrize("rest", [";" * 30_000, "a=b;" * 7_500, '"\\' * 15_000, " =" * 15_000])
def test_the_cookie_is_read_among_many(rest: str) -> None:
    async def visit(visitor: Visitor) -> int:
        pair = (await logged_in(visitor)).split(";")[0]
        return (await visitor.do("x", Cookie=f"{rest}; {pair} ;{'a=b;' * 50}")).status

    assert visited(visit, token=TOKEN) == 200


async def entered(visitor: Visitor, query: str = f"token={TOKEN.replace(' ', '%20')}") -> Reply:
    return await visitor.ask(f"/?{query}")


def test_the_printed_address_begins_a_session() -> None:
    async def visit(visitor: Visitor) -> None:
        reply = await entered(visitor)
        assert (reply.status, reply.headers["location"], reply.body) == (303, "/", b"")
        assert reply.headers["cache-control"] == "no-store"
        pair = reply.headers["set-cookie"].split(";")[0]
        assert (await visitor.do("x", Cookie=pair)).status == 200

    visited(visit, token=TOKEN)


@pytest.mark.parametrize("query", ["token=", "token=correct%20horse", "token=%ff"])
def test_an_address_with_a_wrong_token_begins_no_session(query: str) -> None:
    result = visited(lambda visitor: entered(visitor, query), token=TOKEN)
    assert result.status == 401
    assert "set-cookie" not in result.headers
    assert b"<title>newsift</title>" in result.body


def test_a_stream_ends_with_its_session() -> None:
    async def visit(visitor: Visitor) -> bytes:
        pair = (await logged_in(visitor)).split(";")[0]
        reader, writer = await visitor.follow_changes(f"Cookie: {pair}")
        visitor.site._guard._sessions._last_use.clear()
        visitor.site._shown.changes.notify("matches")
        rest = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return rest

    assert b"event: change" not in visited(visit, token=TOKEN)


def test_a_session_ends_twelve_hours_after_its_last_request() -> None:
    now = 0.0
    sessions = Sessions(lambda: now)
    first, second = sessions.begin(), sessions.begin()
    assert MAX_IDLE_S == 12 * 3600
    now += MAX_IDLE_S
    assert sessions.use(first)
    assert sessions.holds(second)  # which does not prolong it
    now += 1
    assert sessions.use(first)
    assert not sessions.use(second)
    assert not sessions.use("")
    now += MAX_IDLE_S + 1
    assert not sessions.holds(first)


def test_the_least_recently_used_session_ends_for_a_new_one() -> None:
    sessions = Sessions()
    ids = [sessions.begin() for _ in range(MAX_SESSIONS)]
    assert len(set(ids)) == MAX_SESSIONS
    assert sessions.use(ids[0])
    sessions.begin()
    assert sessions.holds(ids[0])
    assert not sessions.holds(ids[1])
