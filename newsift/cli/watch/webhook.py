"""Webhook: each match is posted with a signature, and again until it is acknowledged."""

import asyncio
import hmac
import logging
import os
from hashlib import sha256
from pathlib import Path
from time import time

import aiohttp
from yarl import URL

from newsift.cli.watch.records import WatchMetrics, WebhookCall
from newsift.collect.source import Backoff
from newsift.web.addresses import excerpt, retry_after
from newsift.web.client import client_session
from worker.config.secret import Secret, read_secret
from worker.errors import AccessError, ConfigError
from worker.match.records import MATCH_SCHEMA

SECRET_VARIABLE = "NEWSIFT_WEBHOOK_SECRET"
MAX_ATTEMPT_S = 20.0  # from the connection to the status
FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 300.0  # pauses between attempts
GONE_STATUS = 410
REJECTED_STATUSES = {400, 409, 413, 415, 422}  # the match is not sent again
log = logging.getLogger("newsift.watch")


class Webhook:
    def __init__(self, url: URL, secret: Secret, metrics: WatchMetrics) -> None:
        self._url, self._secret, self._metrics = url, secret, metrics
        self._session: aiohttp.ClientSession | None = None

    async def start(self) -> None:
        # One connection for each queue, whose number is bounded.
        self._session = client_session(aiohttp.ClientTimeout(total=MAX_ATTEMPT_S), connections=0)

    async def stop(self) -> None:
        if self._session is not None:
            await self._session.close()

    async def deliver(self, call: WebhookCall) -> None:
        """Return once a match is accepted or rejected. Raises if the receiver is gone.

        Everything else is retried for ever: a wrong path or an expired login can be corrected, and
        no match may be lost by it.
        """
        pauses = Backoff(FIRST_PAUSE_S, MAX_PAUSE_S)
        while (wait := await self._attempt(call)) is not None:
            self._metrics.failures.inc()
            await asyncio.sleep(max(wait, pauses.pause()))

    async def _attempt(self, call: WebhookCall) -> float | None:
        """Send a match once. Returns None if it needs no retry, else the seconds to wait first."""
        assert self._session is not None
        body = call.body
        headers = {
            "Content-Type": "application/json",
            "Newsift-Match": call.match_id,
            "Newsift-Schema": MATCH_SCHEMA,
            "Newsift-Signature": signature(self._secret, int(time()), body),
        }
        try:
            async with self._session.post(
                self._url, data=body, headers=headers, allow_redirects=False
            ) as answer:
                return self._handle_status(call, answer.status, retry_after(answer.headers))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # Without the address, whose path may be the password.
            text = error.message if isinstance(error, aiohttp.ClientResponseError) else str(error)
            reason, host = excerpt(text) or type(error).__name__, self._url.host
            log.warning("%s: no answer (%s), match %s again", host, reason, call.match_id)
            return 0.0

    def _handle_status(self, call: WebhookCall, status: int, wait: float) -> float | None:
        host, name = self._url.host, call.match_id
        if 200 <= status < 300:
            self._metrics.outcomes.labels("taken").inc()
            return None
        if status == GONE_STATUS:
            raise AccessError(
                f"--webhook: {host} answers 410, it is gone; what it has not taken stays in the "
                "topic, give its new address"
            )
        if status in REJECTED_STATUSES:
            self._metrics.outcomes.labels("refused").inc()
            log.warning("%s answers %d to match %s: it is passed over", host, status, name)
            return None
        log.warning("%s answers %d to match %s: it is sent again", host, status, name)
        return wait


def signature(secret: Secret, at: int, body: bytes) -> str:
    """The time in seconds, and the HMAC-SHA256 of the time, a dot and the body."""
    code = hmac.new(secret.reveal().encode(), b"%d." % at + body, sha256)
    return f"t={at},v1={code.hexdigest()}"


def signing_secret(file: Path | None) -> Secret:
    if file is not None:
        return read_secret(file, "--secret-file")
    value = os.environ.get(SECRET_VARIABLE, "").strip()
    if not (value and value.isprintable()):
        raise ConfigError(
            f"{SECRET_VARIABLE}: is {'no text' if value else 'not set'}; set it, or give "
            "--secret-file: receivers check the signature with it"
        )
    return Secret(value)
