"""The filtered stream of X as its documents have it, that fails in the ways a test asks for.

https://docs.x.com/x-api/posts/filtered-stream/introduction (keep-alives, `matching_rules`),
/x-api/fundamentals/handling-disconnections and /consuming-streaming-data (objects of disconnection,
headers) and /x-api/fundamentals/response-codes-and-errors.
"""

import json
from contextlib import AbstractAsyncContextManager

from aiohttp import web

from tests.newsift.collect.fake_platform import FIRST, FakePlatform, Json, serve

TOKEN = "an-app-token"
EPOCH = 1_288_834_974_657  # of the ids of X
PROBLEMS = "https://api.x.com/2/problems/"
DISCONNECT = {
    "errors": [{
        "title": "operational-disconnect",
        "disconnect_type": "UpstreamOperationalDisconnect",
        "detail": "This stream has been disconnected upstream for operational reasons.",
        "type": f"{PROBLEMS}operational-disconnect",
    }]
}  # fmt: skip
TOO_MANY = {
    "title": "ConnectionException",
    "detail": "This stream is currently at the maximum allowed connection limit.",
    "connection_issue": "TooManyConnections",
    "type": f"{PROBLEMS}streaming-connection",
}


def tweet_id(second: float) -> str:
    return str((round(FIRST + 1000 * second) - EPOCH) << 22)


def make_tweet(id: str) -> Json:
    data = {"id": id, "text": "A ferry burns", "author_id": "7", "edit_history_tweet_ids": [id]}
    users = [{"id": "7", "username": "anna", "name": "Anna"}]
    rules = [{"id": "1", "tag": "ferries"}]
    return {"data": data, "includes": {"users": users}, "matching_rules": rules}


class FakeX(FakePlatform):
    def app(self) -> web.Application:
        made = super().app()
        made.router.add_get("/2/tweets/search/stream", self._stream)
        return made

    async def post(self, *ids: str) -> None:
        for id in ids:
            await self.line(make_tweet(id))

    async def line(self, body: Json) -> None:
        await self.write(json.dumps(body, separators=(",", ":")).encode() + b"\r\n")

    def fits(self, path: str, pattern: str) -> bool:
        return path.endswith(pattern)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        if self.streams:
            return web.json_response(TOO_MANY, status=429)
        answer = web.StreamResponse(headers={"Content-Type": "application/json"})
        await answer.prepare(request)
        await answer.write(b"\r\n")
        return await self.hold(answer)

    def early(self, request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.requests.append(request)
            return web.json_response(
                {"title": "Unauthorized", "type": "about:blank", "status": 401,
                 "detail": "Unauthorized"}, status=401)  # fmt: skip
        return super().early(request)


def serve_x() -> AbstractAsyncContextManager[FakeX]:
    return serve(FakeX(), "/2/tweets/search/stream")
