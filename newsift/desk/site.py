"""The site: routes of the desk, from a browser's request to a function of the desk and back."""

import asyncio
import hashlib
import logging
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any, cast

import msgspec
from aiohttp import web

from encoder.errors import InputError, NewsiftError
from newsift.desk.api import DONE, Attachment, Endpoint, note
from newsift.desk.guard import Guard, harmless
from newsift.desk.session import Desk
from newsift.operations.actor import acting_as
from newsift.operations.messages import capture, notify
from worker.config import WebConfig
from worker.config.secret import Secret
from worker.errors import ConflictError
from worker.metrics.visits import Visit
from worker.metrics.web import FRESH, Handler, Site, json_answer

KINDS = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PIECE = 2**18  # bytes that are read at once
STUCK_S = 60.0  # for one piece, after which a reader is taken to be gone
log = logging.getLogger("newsift.desk")
FIRST_PORT = 6067
LARGEST = 2**23  # bytes of a question: a saved page fits
LARGEST_BODY = 2**24  # of it, what is above LARGEST is read and dropped, for the refusal to arrive
PATIENCE = 32  # questions that wait or are answered at once; the next one is sent away
OPEN_PAGES = 32
SLOW_S = 30.0  # for a beat, after which a page is taken to be gone
STREAM = FRESH | {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
JSON = FRESH | {"Content-Type": "application/json; charset=utf-8"}


@dataclass(frozen=True, slots=True)
class StaticFile:
    """A file of the page, and the tag that tells whether a browser has it already."""

    content: bytes
    kind: str
    tag: str


def all_pages() -> dict[str, StaticFile]:
    """Every file of the page by its path; the start page is /."""
    pages = {
        f"/{name}": _page(name, file) for name, file in _walk(files("newsift.desk") / "static")
    }
    pages["/"] = pages.pop("/index.html")
    return pages


def _walk(folder: Traversable, above: str = "") -> list[tuple[str, Traversable]]:
    rows = []
    for each in folder.iterdir():
        name = f"{above}{each.name}"
        if each.is_dir():
            rows += _walk(each, f"{name}/")
        elif each.name.rpartition(".")[2] in KINDS:
            rows.append((name, each))
    return rows


def _page(name: str, file: Traversable) -> StaticFile:
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:16]}"'
    return StaticFile(content, KINDS[name.rpartition(".")[2]], tag)


async def sent(request: web.Request, file: Attachment) -> web.StreamResponse:
    """Send a file piece by piece, as fast as it is taken; who takes nothing any more is left."""
    response = web.StreamResponse(headers=FRESH | file.headers)
    with file.content as content:
        response.content_length = content.seek(0, os.SEEK_END)
        content.seek(0)
        try:
            await response.prepare(request)
            while piece := await asyncio.to_thread(content.read, PIECE):
                async with asyncio.timeout(STUCK_S):
                    await response.write(piece)
        except (OSError, TimeoutError) as error:
            log.info("%s was not taken to its end (%s)", request.path, type(error).__name__)
            if request.transport is not None:
                request.transport.abort()
    return response


class DeskSite(Site):
    """What a browser sees of a desk."""

    host_key, port_key = "desk.host", "--port"
    first_port, body_bytes = FIRST_PORT, LARGEST_BODY

    def __init__(
        self, desk: Desk, listen: WebConfig, token: Secret | None, endpoints: Sequence[Endpoint],
        *, print_token: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(listen, lambda: b"", lambda: "")
        self._query = f"?token={token.reveal()}" if token and print_token else ""
        self._desk, self._guard, self._endpoints = desk, Guard(token), endpoints
        self._pages = all_pages()
        self._open: set[asyncio.Task[Any] | None] = set()
        self._pending = 0

    async def start(self) -> None:
        """Follow the topics, and listen."""
        self._desk.start()
        await super().start()

    async def run(self) -> None:
        """Serve for as long as this is awaited."""
        await asyncio.Event().wait()

    async def stop(self) -> None:
        """End the pages that listen, and listen no more."""
        for task in filter(None, list(self._open)):
            task.cancel()
        await super().stop()
        self._desk.stop()

    def began(self) -> None:
        """Say where it is served."""
        self._guard.name_cookie(self.port)
        host = f"[{self._config.host}]" if ":" in self._config.host else self._config.host
        notify(f"the desk is open at http://{host}:{self.port}/{self._query} (Ctrl-C ends it)")

    def prepare(self, app: web.Application) -> None:
        """Have every answer say what a browser may do with it, and every refusal be JSON."""
        app.on_response_prepare.append(harmless)
        app.middlewares.append(_in_json)

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        """The files of the page, the stream of beats, and every endpoint."""
        yield from (web.get(path, self._get_page) for path in self._pages)
        yield web.post("/api/login", self._guard.login)
        yield web.get("/api/beats", self._get_beats, allow_head=False)
        for each in self._endpoints:
            yield web.route("POST" if each.does else "GET", each.path, self._answering(each))

    async def _get_page(self, request: web.Request) -> web.Response:
        page, token = self._pages[request.path], request.query.get("token")
        if request.path == "/" and token is not None and self._guard.has_token:
            return await self._guard.enter(request, token) or web.Response(
                body=page.content, status=401, headers=FRESH | {"Content-Type": page.kind}
            )
        headers = {"ETag": page.tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == page.tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=page.content, headers=headers | {"Content-Type": page.kind})

    async def _get_beats(self, request: web.Request) -> web.StreamResponse:
        if refused := await self._guard.refusal(request):
            return _refused(*refused)
        if len(self._open) >= OPEN_PAGES:
            return _refused(503, f"{OPEN_PAGES} pages are open already; close one")
        me, visit = asyncio.current_task(), _visit(request)
        self._open.add(me)
        try:
            response = web.StreamResponse(headers=STREAM)
            visit.stay()
            await response.prepare(request)
            async for beat in self._desk.pulse.beats():
                if not self._guard.still_allows(request):
                    break
                async with asyncio.timeout(SLOW_S):
                    await response.write(beat)
        except (OSError, TimeoutError):
            log.debug("a page is closed")
        finally:
            visit.hurry()
            self._open.discard(me)
        return response

    def _answering(self, endpoint: Endpoint) -> Any:
        async def answer(request: web.Request) -> web.StreamResponse:
            visit = _visit(request)
            if refused := await self._guard.refusal(request):
                return self._turned_away(endpoint, request, *refused)
            if endpoint.does and self._desk.read_only:
                reason = "--read-only: this desk only shows; open another to act"
                return self._turned_away(endpoint, request, 403, reason)
            if self._pending >= PATIENCE:
                return _refused(503, "too much is asked at once; try again")
            self._pending += 1
            try:
                return await self._answered(endpoint, request, visit)
            finally:
                self._pending -= 1
                visit.hurry()

        return answer

    def _turned_away(
        self, endpoint: Endpoint, request: web.Request, status: int, reason: str
    ) -> web.Response:
        if endpoint.does:
            log.warning("%s from %s: %s", endpoint.does, request.remote, reason)
        return _refused(status, reason)

    async def _answered(
        self, endpoint: Endpoint, request: web.Request, visit: Visit
    ) -> web.StreamResponse:
        try:
            question = await _question(endpoint, request)
        except InputError as error:
            return self._turned_away(endpoint, request, 400, str(error))
        visit.stay()
        loop, done = asyncio.get_running_loop(), partial(self._done, endpoint, question)
        outcome = "the desk was ended meanwhile"
        try:
            body, outcome = await loop.run_in_executor(self._desk.hands, done)
        except NewsiftError as error:
            outcome = str(error)
            is_refusal = isinstance(error, InputError | ConflictError)
            return _refused(409 if is_refusal else 502, outcome)
        except Exception as error:  # one page's question ends nobody else's
            log.exception("%s failed", endpoint.path)
            outcome = f"{type(error).__name__}: {error}"
            return _refused(500, outcome)
        finally:
            if endpoint.does:
                note(endpoint, question, outcome, request.remote or "-")
        if isinstance(body, Attachment):
            return await sent(request, body)
        return web.Response(body=body, headers=JSON)

    def _done(self, endpoint: Endpoint, question: msgspec.Struct) -> tuple[bytes | Attachment, str]:
        """Answer, by one of the desk's hands, with what was said on the way; and how it ended."""
        with capture() as messages, acting_as(getattr(question, "by", "")):
            answer = endpoint.answer(self._desk, question)
        if isinstance(answer, Attachment):
            return answer, DONE
        return msgspec.json.encode({"answer": answer, "told": messages}), endpoint.outcome(answer)


async def _question(endpoint: Endpoint, request: web.Request) -> msgspec.Struct:
    """What was asked, in the body or in the address."""
    if not endpoint.does:
        return endpoint.question(dict(request.query), strict=False)
    body = bytearray()
    async for piece in request.content.iter_any():
        if len(body) <= LARGEST:
            body += piece
    if len(body) > LARGEST:
        raise InputError(f"question: is larger than {LARGEST:,} bytes; give less at once")
    return endpoint.decode(bytes(body))


@web.middleware
async def _in_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse what there is not in the words of everything else."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _refused(error.status, f"{request.method}: the desk has nothing of that name")
    except ConnectionError:
        return web.Response(status=400)  # nobody is there to read it


def _visit(request: web.Request) -> Visit:
    if request.transport is None:
        raise ConnectionResetError
    return cast(Visit, request.transport.get_protocol())


def _refused(status: int, reason: str) -> web.Response:
    return json_answer({"reason": reason}, status)
