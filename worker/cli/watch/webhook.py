"""Webhook: a match is POSTed, signed, and again until the receiver has acknowledged it."""

import asyncio
import hmac
import logging
import os
from collections.abc import Mapping
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from time import time

import aiohttp
from yarl import URL

from worker.cli.watch.counts import WatchCounts
from worker.cli.watch.notices import Notice
from worker.config.secret import Secret, read_secret
from worker.errors import AccessError, ConfigError
from worker.match.records import MATCH_SCHEMA
from worker.sources.backoff import Backoff
from worker.sources.http import by_proxy, excerpt, retry_after

VARIABLE = "NEWSIFT_WEBHOOK_SECRET"
ANSWER_S = 20.0  # for one attempt, from the connection to the status
FIRST_S, LONGEST_S = 1.0, 300.0  # pauses between attempts
GONE = 410
MEANT = {400, 409, 413, 415, 422}  # of this match alone: it will not be taken, or it was before
log = logging.getLogger("newsift.watch")


class Webhook:
    """One receiver, which answers 2xx to what it has taken."""

    def __init__(self, url: URL, secret: Secret, counts: WatchCounts) -> None:
        self._url, self._secret, self._counts = url, secret, counts
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        """Be ready to deliver."""
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),  # one for each lane, of which there are so few
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=ANSWER_S),
            middlewares=(by_proxy,),
        )

    async def stop(self) -> None:
        """End every connection."""
        if self._session is not None:
            await self._session.close()

    async def deliver(self, notice: Notice) -> None:
        """Return once a match is taken, or refused for what it is; a receiver that is gone raises.

        Anything else is tried again for ever: a wrong path or a lost login is somebody's mistake,
        and no match is to be lost by it.
        """
        pauses = Backoff(FIRST_S, LONGEST_S)
        while (wait := await self._attempt(notice)) is not None:
            self._counts.failed.inc()
            await asyncio.sleep(max(wait, pauses.pause()))

    async def _attempt(self, notice: Notice) -> float | None:
        """Send a match once: None where it is done, else the seconds to wait at least."""
        assert self._session is not None
        body = notice.body
        headers = signed_headers(notice.match_id, self._secret, int(time()), body)
        try:
            async with self._session.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                return self._done(notice, answer.status, retry_after(answer.headers))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            said = excerpt(_told(error)) or type(error).__name__
            log.warning("%s: no answer (%s), match %s again", self._url.host, said, notice.match_id)
            return 0.0

    def _done(self, notice: Notice, status: int, wait: float) -> float | None:
        """What an answer means for the match."""
        host, name = self._url.host, notice.match_id
        if 200 <= status < 300:
            self._counts.posted.labels("taken").inc()
            return None
        if status == GONE:
            raise AccessError(
                f"--webhook: {host} answers 410, it is gone; what it has not taken stays in the "
                "topic, give its new address"
            )
        if status in MEANT:
            self._counts.posted.labels("refused").inc()
            log.warning("%s answers %d to match %s: it is passed over", host, status, name)
            return None
        log.warning("%s answers %d to match %s: it is sent again", host, status, name)
        return wait


def _told(error: Exception) -> str:
    """What went wrong, without the address, of which the path may be the password."""
    return error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)


def signed_headers(match_id: str, secret: Secret, at: int, body: bytes) -> dict[str, str]:
    """What a receiver checks and tells duplicates by."""
    return {
        "Content-Type": "application/json",
        "Newsift-Match": match_id,
        "Newsift-Schema": MATCH_SCHEMA,
        "Newsift-Signature": signature(secret, at, body),
        "User-Agent": f"newsift/{version('newsift')}",
    }


def signature(secret: Secret, at: int, body: bytes) -> str:
    """The time in seconds, and HMAC-SHA256 of it, a dot and the body."""
    signed = hmac.new(secret.reveal().encode(), b"%d." % at + body, sha256)
    return f"t={at},v1={signed.hexdigest()}"


def signing_secret(file: Path | None, env: Mapping[str, str] = os.environ) -> Secret:
    """The secret of a file, else of the environment; there has to be one."""
    if file is not None:
        return read_secret(file, "--secret-file")
    said = env.get(VARIABLE, "").strip()
    if not (said and said.isprintable()):
        raise ConfigError(
            f"{VARIABLE}: is {'no text' if said else 'not set'}; set it, or give --secret-file: "
            "receivers check by it who sent"
        )
    return Secret(said)
