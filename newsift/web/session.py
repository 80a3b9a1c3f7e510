"""The asynchronous client of sources and webhooks: the environment's proxy, no cookies."""

from importlib.metadata import version

import aiohttp

from newsift.web.addresses import environment_proxy, proxy_login

CONNECT_S = 20.0


def client_session(timeout: aiohttp.ClientTimeout, connections: int = 100) -> aiohttp.ClientSession:
    """`connections` at a time; 0 for any number."""
    return aiohttp.ClientSession(
        timeout=timeout,
        headers={"User-Agent": f"newsift/{version('newsift')}"},
        connector=aiohttp.TCPConnector(limit=connections),
        cookie_jar=aiohttp.DummyCookieJar(),
        middlewares=(by_proxy,),
    )


def limits(stall_s: float) -> aiohttp.ClientTimeout:
    """Limits on connecting and on silence, not on the total time."""
    return aiohttp.ClientTimeout(total=None, connect=CONNECT_S, sock_read=stall_s)


def session(stall_s: float) -> aiohttp.ClientSession:
    return client_session(limits(stall_s))


async def by_proxy(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    # Not by aiohttp's trust_env: that reads ~/.netrc too, whose login is refused beside a token,
    # and knows no proxy for a web socket.
    url = request.url
    proxy = environment_proxy(url.scheme, url.host_port_subcomponent or "")
    if proxy is not None:
        login = proxy_login(proxy)
        request.update_proxy(proxy.with_user(None), None, login)
        if not request.is_ssl():
            request.headers.update(login)
    return await send(request)
