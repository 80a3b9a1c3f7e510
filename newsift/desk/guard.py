"""Access to the desk: tokens, sessions and origins, and the headers that protect its pages."""

import asyncio
import hmac
import secrets
import time
from collections.abc import Callable
from hashlib import sha256
from urllib.parse import urlsplit

from aiohttp import web

from worker.config.secret import Secret

MAX_IDLE_S = 12 * 3600.0
MAX_SESSIONS = 256  # Beyond it the session that has been idle longest ends.
MIN_TOKEN_CHARS = 16
WRONG_TOKEN_DELAY_S = 0.5
SAFE_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Sessions:
    """They end with the process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_use: dict[str, float] = {}  # when each was used last, longest ago first

    def begin(self) -> str:
        if len(self._last_use) >= MAX_SESSIONS:
            del self._last_use[next(iter(self._last_use))]
        session_id = secrets.token_urlsafe(32)
        self._last_use[session_id] = self._clock()
        return session_id

    def use(self, session_id: str) -> bool:
        """Whether the session exists; prolongs it."""
        if not self.holds(session_id):
            return False
        del self._last_use[session_id]
        self._last_use[session_id] = self._clock()
        return True

    def holds(self, session_id: str) -> bool:
        used_at = self._last_use.get(session_id)
        if used_at is not None and self._clock() - used_at > MAX_IDLE_S:
            del self._last_use[session_id]
            return False
        return used_at is not None


class Guard:
    """Accepts requests of the desk's own pages, with a session where there is a token."""

    def __init__(self, token: Secret | None) -> None:
        self._proof = _digest(token.reveal()) if token else b""
        self._sessions = Sessions()
        self.cookie = ""  # its name

    @property
    def has_token(self) -> bool:
        return bool(self._proof)

    async def refusal(self, request: web.Request) -> tuple[int, str] | None:
        if not _is_from_own_page(request):
            return 403, "origin: another page asks; open the desk itself"
        if "Content-Encoding" in request.headers:
            return 415, "content-encoding: give it unpacked"
        if request.method == "POST" and media_type(request) != "application/json":
            return 415, "content-type: give application/json"
        if not self._proof or self._sessions.use(read_cookie(request, self.cookie)):
            return None
        if self._has_bearer(request):
            return None
        if "Authorization" in request.headers:
            await asyncio.sleep(WRONG_TOKEN_DELAY_S)
        return 401, "token: is missing or not the desk's; give it"

    def still_allows(self, request: web.Request) -> bool:
        """Checks the session of a stream without prolonging it."""
        session_id = read_cookie(request, self.cookie)
        return not self._proof or self._sessions.holds(session_id) or self._has_bearer(request)

    async def login(self, request: web.Request) -> web.Response:
        """Starts a session with a token that was typed on the page."""
        if not self._proof or not _is_from_own_page(request) or not self._has_bearer(request):
            await asyncio.sleep(WRONG_TOKEN_DELAY_S)
            return web.json_response({"reason": "token: is not the desk's"}, status=401)
        response = web.json_response({"answer": None, "messages": []})
        self._begin_session(request, response)
        return response

    async def enter(self, request: web.Request, token: str) -> web.Response | None:
        """Starts a session with the token in the printed address; None if it is wrong."""
        if not self._is_token(token):
            await asyncio.sleep(WRONG_TOKEN_DELAY_S)
            return None
        response = web.Response(status=303, headers={"Location": "/", "Cache-Control": "no-store"})
        self._begin_session(request, response)
        return response

    def _begin_session(self, request: web.Request, response: web.Response) -> None:
        is_secure = urlsplit(request.headers.get("Origin", "")).scheme == "https"
        response.set_cookie(
            self.cookie, self._sessions.begin(), httponly=True, samesite="Strict",
            secure=is_secure,
        )  # fmt: skip

    def _has_bearer(self, request: web.Request) -> bool:
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        return kind.lower() == "bearer" and self._is_token(token.strip())

    def _is_token(self, text: str) -> bool:
        return bool(self._proof) and hmac.compare_digest(_digest(text), self._proof)


# aiohttp's own parsers of these two headers take time that is quadratic in their length.
def media_type(request: web.Request) -> str:
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def read_cookie(request: web.Request, name: str) -> str:
    pairs = (pair.partition("=") for pair in request.headers.get("Cookie", "").split(";"))
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def _digest(text: str) -> bytes:
    return sha256(text.encode("utf-8", "surrogateescape")).digest()


def _is_from_own_page(request: web.Request) -> bool:
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin")
    return origin is None or origin in (f"http://{request.host}", f"https://{request.host}")


async def add_safe_headers(_request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(SAFE_HEADERS)
