"""An instance of Mastodon as its documents have it, that fails in the ways a test asks for.

https://docs.joinmastodon.org/methods/streaming/ (forms of events, errors), /methods/timelines/
(`min_id`, at most 40 a page, newest first), /entities/Instance/, /api/rate-limits/; what a stream
writes, byte for byte, is that of streaming/index.js of github.com/mastodon/mastodon.
"""

import json
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import web
from yarl import URL

from tests.newsift.collect.fake_platform import FIRST, FakePlatform, Json, serve

TOKEN = "a-user-token"


def status_id(second: float) -> str:
    return str(round(FIRST + 1000 * second) << 16)


def make_status(id: str, text: str = "A ferry burns", **more: Any) -> Json:
    account = {"id": "7", "acct": "anna@example.org"}
    made = {"id": id, "created_at": "2026-09-22T12:00:00.000Z", "uri": f"https://x/{id}"}
    return {**made, "content": f"<p>{text}</p>", "language": "en", "account": account, **more}


class FakeInstance(FakePlatform):
    def __init__(self) -> None:
        super().__init__()
        self.statuses: list[Json] = []
        self.access: Any = {"local": "public", "remote": "authenticated"}
        self.document: Json | None = {}
        self.left = 300
        self.hidden: set[str] = set()  # from this account, once a page is made up

    @property
    def sockets(self) -> list[web.WebSocketResponse]:
        return [each for each in self.streams if isinstance(each, web.WebSocketResponse)]

    def app(self) -> web.Application:
        made = super().app()
        made.router.add_get("/api/v2/instance", self._about)
        made.router.add_get("/api/v1/timelines/{kind:public|tag/.*}", self._timeline)
        made.router.add_get("/api/v1/streaming", self._socket)
        made.router.add_get("/api/v1/streaming/{kind:.*}", self._stream)
        return made

    def urls(self, start: str) -> list[URL]:
        return [request.url for request in self.requests if request.path.startswith(start)]

    async def post(self, *ids: str, name: str = "update") -> None:
        for id in ids:
            made = make_status(id)
            self.statuses.append(made)
            await self.tell(name, json.dumps(made))

    async def tell(self, name: str, data: str) -> None:
        await self.write(f"event: {name}\ndata: {data}\n\n".encode())
        for socket in self.sockets:
            await socket.send_json({"stream": ["public"], "event": name, "payload": data})

    async def _about(self, request: web.Request) -> web.Response:
        if self.document is None:
            return web.json_response({"error": "Not Found"}, status=404)
        access = {"live_feeds": self.access, "hashtag_feeds": self.access}
        result: Json = {"urls": {"streaming": f"ws://{self.url.authority}"}}
        return web.json_response(
            {"configuration": {**result, "timelines_access": access}, **self.document}
        )

    async def _timeline(self, request: web.Request) -> web.Response:
        limit = min(int(request.query.get("limit", "20")), 40)
        ordered = sorted(self.statuses, key=lambda each: int(each["id"]))
        if "min_id" in request.query:
            page = [s for s in ordered if int(s["id"]) > int(request.query["min_id"])][:limit]
        else:
            page = ordered[-limit:]
        self.left -= 1
        page = [each for each in page if each["id"] not in self.hidden]
        return web.json_response(page[::-1], headers=self.limits())

    def limits(self) -> dict[str, str]:
        reset = (datetime.now(UTC) + timedelta(seconds=200)).isoformat().replace("+00:00", "Z")
        return {"X-RateLimit-Remaining": str(self.left), "X-RateLimit-Reset": reset}

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"error": "Invalid access token"}, status=401)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b":)\n")
        return await self.hold(answer)

    async def _socket(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            told = {"X-Error-Message": "Invalid access token", "Content-Type": "text/plain"}
            return web.Response(status=401, headers=told)
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        if request.query.get("stream") != "public":
            await socket.send_json({"error": "Unknown stream type", "status": 400})
        return await self.hold(socket)


def serve_instance() -> AbstractAsyncContextManager[FakeInstance]:
    return serve(FakeInstance(), "/")
