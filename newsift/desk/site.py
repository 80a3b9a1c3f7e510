"""The desk's HTTP server: static files, the stream of changes and the endpoints."""

import asyncio
import hashlib
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable

import msgspec
from aiohttp import web

from encoder.errors import InputError, NewsiftError
from newsift.desk.api import DONE_OUTCOME, Download, Endpoint, log_action
from newsift.desk.guard import Guard, add_safe_headers
from newsift.desk.projects import Projects
from newsift.desk.session import Desk
from newsift.desk.threads import failure_text
from newsift.operations.actor import acting_as
from newsift.operations.messages import capture, notify
from newsift.web.addresses import host_and_port
from worker.config import WebConfig
from worker.config.secret import Secret
from worker.errors import ConflictError
from worker.metrics.visits import Visit
from worker.metrics.web import EVENT_STREAM, NO_STORE, Handler, Site, json_answer, visit_of

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
FIRST_PORT = 6067
CHUNK_BYTES = 2**18
MAX_CHUNK_S = 60.0  # A browser must take a chunk within this time.
MAX_REQUEST_BYTES = 2**23  # A saved web page fits.
MAX_DRAINED_BYTES = 2**24  # A larger request is read so far, so that the client reads the refusal.
MAX_REQUESTS = 32
MAX_STREAMS = 32  # Each open page has one.
MAX_MESSAGE_S = 30.0
JSON = NO_STORE | {"Content-Type": "application/json; charset=utf-8"}
log = logging.getLogger("newsift.desk")


@dataclass(frozen=True, slots=True)
class StaticFile:
    content: bytes
    media_type: str
    etag: str


def static_files() -> dict[str, StaticFile]:
    """Files by path; the start page is /."""
    by_path = dict(_read_folder(files("newsift.desk") / "static", "/"))
    by_path["/"] = by_path.pop("/index.html")
    return by_path


def _read_folder(folder: Traversable, path: str) -> Iterator[tuple[str, StaticFile]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _read_folder(entry, f"{path}{entry.name}/")
        elif media_type := MEDIA_TYPES.get(entry.name.rpartition(".")[2]):
            content = entry.read_bytes()
            etag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
            yield f"{path}{entry.name}", StaticFile(content, media_type, etag)


def announce(address: str) -> None:
    notify(f"the desk is open at {address} (Ctrl-C ends it)")


class DeskSite(Site):
    host_key, port_key = "desk.host", "--port"
    first_port, body_bytes = FIRST_PORT, MAX_DRAINED_BYTES

    def __init__(
        self, shown: Desk | Projects, listen: WebConfig, token: Secret | None,
        endpoints: Sequence[Endpoint],
        *, print_token: bool = False, on_open: Callable[[str], None] = announce,
    ) -> None:  # fmt: skip
        """`on_open` gets the address, with the token if it may be printed.

        Of endpoints with one path the last counts.
        """
        super().__init__(listen, lambda: b"", lambda: "")
        self._query = f"?token={token.reveal()}" if token and print_token else ""
        self._on_open = on_open
        self._shown, self._guard = shown, Guard(token)
        self._endpoints = {endpoint.path: endpoint for endpoint in endpoints}
        self._files = static_files()
        self._requests = 0

    async def start(self) -> None:
        await super().start()  # first, as a port that is taken must end it before threads start
        self._shown.start()

    async def stop(self) -> None:
        await super().stop()
        await asyncio.to_thread(self._shown.stop)

    def on_started(self) -> None:
        # Browsers send a cookie to every port of a host, so its name has the port.
        self._guard.cookie = f"newsift_desk_{self.port}"
        self._on_open(f"http://{host_and_port(self._config.host, self.port)}/{self._query}")

    def prepare(self, app: web.Application) -> None:
        app.on_response_prepare.append(add_safe_headers)
        app.middlewares.append(_refuse_in_json)

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        yield from (web.get(path, self._get_file) for path in self._files)
        yield web.post("/api/login", self._guard.login)
        yield web.get("/api/changes", self._get_changes, allow_head=False)
        for endpoint in self._endpoints.values():
            yield web.route(
                "POST" if endpoint.audit_name else "GET", endpoint.path, self._handler(endpoint)
            )

    async def _get_file(self, request: web.Request) -> web.Response:
        file, token = self._files[request.path], request.query.get("token")
        if request.path == "/" and token is not None and self._guard.has_token:
            return await self._guard.enter(request, token) or web.Response(
                body=file.content, status=401, headers=NO_STORE | {"Content-Type": file.media_type}
            )
        headers = {"ETag": file.etag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == file.etag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=file.content, headers=headers | {"Content-Type": file.media_type})

    async def _get_changes(self, request: web.Request) -> web.StreamResponse:
        if refusal := await self._guard.refusal(request):
            return _json_refusal(*refusal)
        if self.streams >= MAX_STREAMS:
            return _json_refusal(503, f"{MAX_STREAMS} pages are open already; close one")
        visit, response = visit_of(request), web.StreamResponse(headers=EVENT_STREAM)
        visit.disable_timeout()
        try:
            with self.streaming():
                await response.prepare(request)
                async for message in self._shown.changes.stream():
                    if not self._guard.still_allows(request):
                        break
                    async with asyncio.timeout(MAX_MESSAGE_S):
                        await response.write(message)
        except (OSError, TimeoutError):
            log.debug("a page is closed")
        finally:
            visit.restart_timeout()
        return response

    def _handler(self, endpoint: Endpoint) -> Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            visit = visit_of(request)
            if refusal := await self._guard.refusal(request):
                return _action_refusal(endpoint, request, *refusal)
            if endpoint.audit_name and self._shown.read_only:
                reason = "--read-only: this desk only shows; open another to act"
                return _action_refusal(endpoint, request, 403, reason)
            if self._requests >= MAX_REQUESTS:
                return _json_refusal(503, "too much is asked at once; try again")
            self._requests += 1
            try:
                return await self._answer(endpoint, request, visit)
            finally:
                self._requests -= 1
                visit.restart_timeout()

        return handle

    async def _answer(
        self, endpoint: Endpoint, request: web.Request, visit: Visit
    ) -> web.StreamResponse:
        try:
            values = await _read_request(endpoint, request)
        except InputError as error:
            return _action_refusal(endpoint, request, 400, str(error))
        visit.disable_timeout()
        outcome = "no result: the desk stopped before"
        try:
            body, outcome = await asyncio.get_running_loop().run_in_executor(
                self._shown.executor, self._call, endpoint, values
            )
        except Exception as error:  # noqa: BLE001 - other requests are answered nevertheless
            outcome = failure_text(error, f"{endpoint.path} failed")
            status = 502 if isinstance(error, NewsiftError) else 500
            if isinstance(error, InputError | ConflictError):
                status = 409
            return _json_refusal(status, outcome)
        finally:
            if endpoint.audit_name:
                log_action(endpoint, values, outcome, request.remote or "-")
        if isinstance(body, Download):
            return await send_file(request, body)
        return web.Response(body=body, headers=JSON)

    def _call(self, endpoint: Endpoint, values: msgspec.Struct) -> tuple[bytes | Download, str]:
        """The response and the outcome for the audit log."""
        with capture() as messages, acting_as(getattr(values, "by", "")):
            subject = self._shown if endpoint.takes_projects else self._shown.desk
            answer = endpoint.function(subject, values)
        if isinstance(answer, Download):
            return answer, DONE_OUTCOME
        body = msgspec.json.encode({"answer": answer, "messages": messages})
        return body, endpoint.outcome(answer)


async def _read_request(endpoint: Endpoint, request: web.Request) -> msgspec.Struct:
    if not endpoint.audit_name:
        return endpoint.parse(dict(request.query))
    body = bytearray()
    async for chunk in request.content.iter_any():
        if len(body) <= MAX_REQUEST_BYTES:
            body += chunk
    if len(body) > MAX_REQUEST_BYTES:
        raise InputError(f"request: is larger than {MAX_REQUEST_BYTES:,} bytes; give less at once")
    return endpoint.parse(bytes(body))


async def send_file(request: web.Request, file: Download) -> web.StreamResponse:
    """Drops the connection if the client takes nothing for a while."""
    response = web.StreamResponse(headers=NO_STORE | file.headers)
    with file.content as content:
        response.content_length = content.seek(0, os.SEEK_END)
        content.seek(0)
        try:
            await response.prepare(request)
            while chunk := await asyncio.to_thread(content.read, CHUNK_BYTES):
                async with asyncio.timeout(MAX_CHUNK_S):
                    await response.write(chunk)
        except (OSError, TimeoutError) as error:
            log.info("%s was not sent to its end (%s)", request.path, type(error).__name__)
            if request.transport is not None:
                request.transport.abort()
    return response


@web.middleware
async def _refuse_in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _json_refusal(error.status, f"{request.method}: the desk has nothing of that name")
    except ConnectionError:
        return web.Response(status=400)  # nobody reads it


def _json_refusal(status: int, reason: str) -> web.Response:
    return json_answer({"reason": reason}, status)


def _action_refusal(
    endpoint: Endpoint, request: web.Request, status: int, reason: str
) -> web.Response:
    if endpoint.audit_name:
        log.warning("%s from %s: %s", endpoint.audit_name, request.remote, reason)
    return _json_refusal(status, reason)
