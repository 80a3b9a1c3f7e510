"""The filtered stream of X as its documents have it, that fails in the ways a test asks for.

https://docs.x.com/x-api/posts/filtered-stream/introduction (keep-alives, `matching_rules`),
/x-api/fundamentals/handling-disconnections and /consuming-streaming-data (objects of disconnection,
headers), /x-api/fundamentals/response-codes-and-errors, and openapi.json (paths of the rules). The
errors of rules and the 409 are in the form that users show, for the documents show none:
github.com/mastashake08/discord-twitter-bot/issues/7 and
xdevplatform/twitter-api-typescript-sdk/issues/9.
"""

import json
from contextlib import AbstractAsyncContextManager

from aiohttp import web

from tests.newsift.collect.platform_side import FIRST, FakePlatform, Json, serve

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
    def __init__(self) -> None:
        super().__init__()
        self.rules: list[Json] = [{"id": "1", "value": "ferry", "tag": "ferries"}]
        self.bodies: list[Json] = []

    def app(self) -> web.Application:
        made = super().app()
        made.router.add_get("/2/tweets/search/stream", self._stream)
        made.router.add_get("/2/tweets/search/stream/rules", self._listed)
        made.router.add_post("/2/tweets/search/stream/rules", self._changed)
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

    async def _listed(self, request: web.Request) -> web.Response:
        start = int(request.query.get("pagination_token", "0"))
        page = self.rules[start : start + 30]  # a page of ours, smaller than theirs
        more = {"next_token": f"{start + 30:016}"} if start + 30 < len(self.rules) else {}
        result: Json = {"meta": {"result_count": len(page), **more}}
        return web.json_response({"data": page, **result} if page else result)

    async def _changed(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append({"query": dict(request.query), **body})
        assert len({"add", "delete"} & set(body)) == 1
        if "delete" in body:
            gone = set(body["delete"]["ids"])
            self.rules = [rule for rule in self.rules if rule["id"] not in gone]
            return web.json_response({"meta": {"summary": {"deleted": len(gone)}}})
        return self._added(body["add"], "dry_run" in request.query)

    def _added(self, rules: list[Json], dry: bool) -> web.Response:
        errors, made = list[Json](), list[Json]()
        for rule in rules:
            title, kind = "", ""
            if rule["value"].startswith("has:"):
                title, kind = "Invalid Rule", "invalid-rules"
            elif rule["value"] in [each["value"] for each in self.rules]:
                title, kind = "DuplicateRule", "duplicate-rules"
            else:
                made.append({"id": str(1000 + len(self.rules) + len(made)), **rule})
            if title:
                why = {"details": ["needs a standalone operator"]} if "Invalid" in title else {}
                errors.append({"value": rule["value"], "title": title, **why,
                               "type": PROBLEMS + kind})  # fmt: skip
        if not dry:
            self.rules += made
        body: Json = {"data": made} | ({"errors": errors} if errors else {})
        return web.json_response(body, status=201 if made else 400)

    def early(self, request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.requests.append(request)
            return web.json_response(
                {"title": "Unauthorized", "type": "about:blank", "status": 401,
                 "detail": "Unauthorized"}, status=401)  # fmt: skip
        return super().early(request)


def serve_x() -> AbstractAsyncContextManager[FakeX]:
    return serve(FakeX(), "/2/tweets/search/stream")
