"""The site: routes of the desk, from a browser's request to a function of the desk and back."""

import asyncio
import logging
from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec
from aiohttp import web

from encoder.errors import InputError, NewsiftError
from worker.config import WebConfig
from worker.config.secret import Secret
from worker.desk.desk import Desk, note
from worker.desk.server.api import Act, Endpoint
from worker.desk.server.attachment import Attachment, sent
from worker.desk.server.guard import Guard, harmless
from worker.desk.server.pages import all_pages
from worker.watch.site import FRESH, Site, json_answer
from worker.watch.visits import Visit

FIRST_PORT = 6067
LARGEST = 2**23  # bytes of a question: a saved page fits
PATIENCE = 32  # questions that wait or are answered at once; the next one is sent away
OPEN_PAGES = 32
STREAM = FRESH | {"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"}
JSON = FRESH | {"Content-Type": "application/json; charset=utf-8"}
log = logging.getLogger("newsift.desk")


class DeskSite(Site):
    """What a browser sees of a desk."""

    host_key, port_key = "desk.host", "--port"
    first_port, largest = FIRST_PORT, LARGEST

    def __init__(
        self, desk: Desk, listen: WebConfig, token: Secret | None, endpoints: Sequence[Endpoint]
    ) -> None:
        super().__init__(listen, lambda: b"", lambda: "")
        self._desk, self._guard, self._endpoints = desk, Guard(token), endpoints
        self._pages = all_pages()
        self._open: set[asyncio.Task[Any] | None] = set()
        self._asked = 0

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
        log.info("the desk: http://%s:%d/", self._config.host, self.port)

    def prepare(self, app: web.Application) -> None:
        """Have every answer say what a browser may do with it."""
        app.on_response_prepare.append(harmless)

    def routes(self) -> Iterable[web.AbstractRouteDef]:
        """The files of the page, the stream of beats, and every endpoint."""
        yield from (web.get(path, self._get_page) for path in self._pages)
        yield web.post("/api/login", self._guard.login)
        yield web.get("/api/beats", self._get_beats)
        for each in self._endpoints:
            yield web.route("POST" if each.does else "GET", each.path, self._answering(each))

    async def _get_page(self, request: web.Request) -> web.Response:
        page = self._pages[request.path]
        headers = {"ETag": page.tag, "Cache-Control": "no-cache"}
        if request.headers.get("If-None-Match") == page.tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=page.content, headers=headers | {"Content-Type": page.kind})

    async def _get_beats(self, request: web.Request) -> web.StreamResponse:
        if refused := self._guard.refusal(request):
            return _refused(*refused)
        if len(self._open) >= OPEN_PAGES:
            return _refused(503, f"{OPEN_PAGES} pages are open already; close one")
        me = asyncio.current_task()
        self._open.add(me)
        try:
            response = web.StreamResponse(headers=STREAM)
            _stay(request)
            await response.prepare(request)
            async for beat in self._desk.pulse.beats():
                await response.write(beat)
        except OSError:
            log.debug("a page is closed")
        finally:
            self._open.discard(me)
        return response

    def _answering(self, endpoint: Endpoint) -> Any:
        async def answer(request: web.Request) -> web.StreamResponse:
            if refused := self._guard.refusal(request):
                return _refused(*refused)
            if endpoint.does and self._desk.read_only:
                return _refused(403, "--read-only: this desk only shows; open another to act")
            if self._asked >= PATIENCE:
                return _refused(503, "too much is asked at once; try again")
            self._asked += 1
            try:
                return await self._answered(endpoint, request)
            finally:
                self._asked -= 1

        return answer

    async def _answered(self, endpoint: Endpoint, request: web.Request) -> web.StreamResponse:
        try:
            question = endpoint.question(*await _given(request, bool(endpoint.does)))
        except InputError as error:
            return _refused(400, str(error))
        _stay(request)
        loop = asyncio.get_running_loop()
        try:
            body = await loop.run_in_executor(self._desk.hands, self._done, endpoint, question)
        except NewsiftError as error:
            return _refused(409 if isinstance(error, InputError) else 502, str(error))
        except Exception as error:  # one page's question ends nobody else's
            log.exception("%s failed", endpoint.path)
            return _refused(500, f"{type(error).__name__}: {error}")
        if isinstance(body, Attachment):
            return await sent(request, body)
        return web.Response(body=body, headers=JSON)

    def _done(self, endpoint: Endpoint, question: msgspec.Struct) -> bytes | Attachment:
        """Answer, by one of the desk's hands; of an action the audit is told."""
        outcome = "done"
        try:
            answer = endpoint.answer(self._desk, question)
            if isinstance(answer, Attachment):
                return answer
            return msgspec.json.encode({"answer": answer})
        except Exception as error:
            outcome = str(error)
            raise
        finally:
            if isinstance(question, Act):
                note(endpoint.does, question.by, question, outcome)


async def _given(request: web.Request, acts: bool) -> tuple[object, bool]:
    """What was asked, in the body or in the address, and whether numbers are numbers there."""
    if not acts:
        return dict(request.query), False
    try:
        return msgspec.json.decode(await request.read()), True
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InputError(f"question: bad JSON ({error})") from None


def _stay(request: web.Request) -> None:
    assert request.transport is not None
    cast(Visit, request.transport.get_protocol()).stay()


def _refused(status: int, reason: str) -> web.Response:
    return json_answer({"reason": reason}, status)
