"""The guard: who may ask the desk what, and what a browser may do with its answers."""

import asyncio
import hmac
from hashlib import sha256
from urllib.parse import urlsplit

from aiohttp import web

from worker.config.secret import Secret

SHORTEST = 16  # characters of a token, so that nobody finds it by trying
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
        self._proof = _digest(token.reveal()) if token else ""
        # Browsers keep cookies by host alone: desks on several ports keep theirs apart.
        self._cookie = f"newsift_desk_{_digest(self._proof)[:8]}"

    async def refusal(self, request: web.Request) -> tuple[int, str] | None:
        """Why a question is not answered, if so: the status and the reason."""
        if not _from_own_page(request):
            return 403, "origin: another page asks; open the desk itself"
        if "Content-Encoding" in request.headers:
            return 415, "content-encoding: give it unpacked"
        if request.method == "POST" and media_type(request) != "application/json":
            return 415, "content-type: give application/json"
        if self._proof and not self._knows(request):
            if "Authorization" in request.headers:
                await asyncio.sleep(SLOW_S)
            return 401, "token: is missing or not the desk's; give it"
        return None

    async def login(self, request: web.Request) -> web.Response:
        """Give who shows the token what makes the browser known."""
        if not self._proof or not _from_own_page(request) or not self._shows_token(request):
            await asyncio.sleep(SLOW_S)
            return web.json_response({"reason": "token: is not the desk's"}, status=401)
        response = web.json_response({"answer": None, "told": []})
        encrypted = urlsplit(request.headers.get("Origin", "")).scheme == "https"
        response.set_cookie(
            self._cookie, self._proof, max_age=WEEK_S, httponly=True, samesite="Strict",
            secure=encrypted,
        )  # fmt: skip
        return response

    def _knows(self, request: web.Request) -> bool:
        """Whether who asks has logged in, or is a script that shows the token itself."""
        shown = cookie(request, self._cookie).encode("utf-8", "surrogateescape")
        return hmac.compare_digest(shown, self._proof.encode()) or self._shows_token(request)

    def _shows_token(self, request: web.Request) -> bool:
        kind, _, shown = request.headers.get("Authorization", "").partition(" ")
        proof = _digest(shown.strip()).encode()
        return kind.lower() == "bearer" and hmac.compare_digest(proof, self._proof.encode())


# aiohttp's own parsers of these two headers take time that is quadratic in their length.
def media_type(request: web.Request) -> str:
    """What a request says its body is, without parameters."""
    return request.headers.get("Content-Type", "").partition(";")[0].strip().lower()


def cookie(request: web.Request, name: str) -> str:
    """The value of a cookie of ours; empty without it."""
    pairs = (pair.partition("=") for pair in request.headers.get("Cookie", "").split(";"))
    return next((value.strip() for key, _, value in pairs if key.strip() == name), "")


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def _from_own_page(request: web.Request) -> bool:
    """Whether no page of another origin asks, as far as a browser says."""
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = request.headers.get("Origin")
    return origin is None or origin in (f"http://{request.host}", f"https://{request.host}")


async def harmless(_request: web.Request, response: web.StreamResponse) -> None:
    """Tell the browser to load nothing from elsewhere, whatever an answer holds."""
    response.headers.update(SAFE_HEADERS)
