"""The guard: who may ask the desk what, and what a browser may do with its answers."""

import asyncio
import hmac
from hashlib import sha256
from urllib.parse import urlsplit

from aiohttp import web

from worker.config.secret import Secret

COOKIE = "newsift_desk"
SLOW_S = 0.5  # before a wrong token is refused
WEEK_S = 7 * 86_400
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


class Guard:
    """Lets in who comes from the desk's own page, with the token where there is one."""

    def __init__(self, token: Secret | None) -> None:
        self._proof = sha256(token.reveal().encode()).hexdigest() if token else ""

    def refusal(self, request: web.Request) -> tuple[int, str] | None:
        """Why a question is not answered, if so: the status and the reason."""
        if not _from_own_page(request):
            return 403, "origin: another page asks; open the desk itself"
        if request.method == "POST" and request.content_type != "application/json":
            return 415, "content-type: give application/json"
        if not self.knows(request):
            return 401, "token: is missing; give the desk's token"
        return None

    def knows(self, request: web.Request) -> bool:
        """Whether who asks has shown the token, or none is needed."""
        shown = request.cookies.get(COOKIE, "")
        return not self._proof or hmac.compare_digest(shown.encode(), self._proof.encode())

    async def login(self, request: web.Request) -> web.Response:
        """Give who shows the token what makes the browser known."""
        shown = request.headers.get("Authorization", "").removeprefix("Bearer ").strip()
        if not self._proof or not _from_own_page(request) or not self._is_token(shown):
            await asyncio.sleep(SLOW_S)
            return web.json_response({"reason": "token: is not the desk's"}, status=401)
        response = web.json_response({"answer": None, "told": []})
        response.set_cookie(
            COOKIE, self._proof, max_age=WEEK_S, httponly=True, samesite="Strict",
            secure=request.secure,
        )  # fmt: skip
        return response

    def _is_token(self, shown: str) -> bool:
        proof = sha256(shown.encode("utf-8", "surrogateescape")).hexdigest()
        return hmac.compare_digest(proof, self._proof)


def _from_own_page(request: web.Request) -> bool:
    """Whether no page of another origin asks, as far as a browser says."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin")
    return origin is None or urlsplit(origin).netloc == request.host


async def harmless(_request: web.Request, response: web.StreamResponse) -> None:
    """Tell the browser to load nothing from elsewhere, whatever an answer holds."""
    response.headers.update(SAFE_HEADERS)
