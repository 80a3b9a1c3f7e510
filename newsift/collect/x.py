"""X: the filtered stream of the API v2, and the rules that select its posts.

See https://docs.x.com/x-api/posts/filtered-stream/introduction and the pages on streams of
https://docs.x.com/x-api/fundamentals/.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from pathlib import Path
from time import time

import msgspec
from aiohttp import ClientResponse, ClientSession
from yarl import URL

from encoder.errors import InputError, NewsiftError
from encoder.support.files import read_regular
from newsift.collect.http import (
    LineParser,
    answer_error,
    connection_errors,
    decode_answer,
    parse_endpoint,
    read_body,
    require_no_login,
)
from newsift.collect.source import (
    ANNOUNCED,
    BUSY,
    CLOSED,
    LIMITED,
    Arrivals,
    Backoff,
    Gap,
    LostError,
    SourceEndedError,
    SourceFrame,
    SourcePosition,
    seconds_since,
)
from newsift.files.platforms import IdObject
from newsift.web.addresses import excerpt, retry_after, seconds_until
from newsift.web.client import stream_timeout
from worker.config.secret import Secret
from worker.errors import AccessError

POST_ID = re.compile(r"[0-9]{1,19}")
ID_EPOCH_MS = 1_288_834_974_657  # ids hold the milliseconds since this time
MIN_TIMED_ID = 2**48  # smaller ids, from before 2011, hold no time
TOO_MANY_REQUESTS = (429, 420)  # X used 420 before 429
REMEDIES = {
    401: "give the bearer token of an app",
    402: "buy credits for the app, then start again",
    403: "give the app access to the filtered stream",
    404: "give the address of the filtered stream to --url",
    409: "give it rules with --rules FILE",
}


class Problem(msgspec.Struct):
    """An error of X, which may have inner errors."""

    title: str | None = None
    detail: str | None = None
    type: str | None = None  # an address, whose last part is the name
    disconnect_type: str | None = None
    connection_issue: str | None = None
    errors: list["Problem"] | None = None

    def message(self) -> str:
        inner = self.errors[0].message() if self.errors else ""
        title = self.disconnect_type or self.connection_issue or self.title
        parts = dict.fromkeys((title, self.detail or inner))
        return excerpt(": ".join(part for part in parts if part))

    @property
    def name(self) -> str:
        return (self.type or "").rpartition("/")[2]

    def is_disconnect(self) -> bool:
        return (
            bool(self.disconnect_type or self.connection_issue)
            or self.name in ("operational-disconnect", "streaming-connection", "usage-capped")
            or any(error.is_disconnect() for error in self.errors or ())
        )

    def is_limit(self) -> bool:
        """Whether there were too many connections, requests or posts."""
        return (
            self.connection_issue == "TooManyConnections"
            or self.name in ("usage-capped", "rate-limit-exceeded")
            or any(error.is_limit() for error in self.errors or ())
        )


class StreamLine(Problem):
    """A post under `data`, or a problem."""

    data: IdObject | None = None


LINE = msgspec.json.Decoder(StreamLine)


def time_of_id(id: str) -> float | None:
    """Seconds since 1970; None if the id holds no time."""
    number = int(id) if id.isascii() and id.isdigit() else 0
    return ((number >> 22) + ID_EPOCH_MS) / 1000 if number >= MIN_TIMED_ID else None


def parse_post_id(line: bytes, place: str) -> str | None:
    """None if the line holds no valid post.

    Raises LostError for a line that ends the connection.
    """
    try:
        event = LINE.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if event.data is not None:
        id = str(event.data.id)
        return id if POST_ID.fullmatch(id) else None
    if event.is_disconnect():
        reason = LIMITED if event.is_limit() else ANNOUNCED
        raise LostError(reason, f"{place} says: {event.message()}")
    return None


def refusal_error(
    status: int, headers: Mapping[str, str], body: bytes, place: str
) -> LostError | AccessError:
    """The error for an answer that is not a stream: LostError if a retry may help."""
    try:
        problem = msgspec.json.decode(body, type=Problem)
        detail = problem.message()
    except (msgspec.MsgspecError, RecursionError):
        problem, detail = Problem(), excerpt(body)
    if status in TOO_MANY_REQUESTS or problem.is_limit():
        message = f"{place} answers {status}{f' ({detail})' if detail else ''}"
        return LostError(LIMITED, message, max(seconds_until_reset(headers), retry_after(headers)))
    remedy = REMEDIES.get(status, "correct the request")
    return answer_error(place, status, headers, detail, remedy)


def seconds_until_reset(headers: Mapping[str, str]) -> float:
    """Seconds until the next window of the rate limit; 0 if requests are left in this one."""
    if headers.get("x-rate-limit-remaining", "0").strip() != "0":
        return 0.0
    try:
        return seconds_until(float(headers.get("x-rate-limit-reset", "")), headers)
    except ValueError:
        return 0.0


MAX_RULES = 1_000
MAX_RULE_CHARS = 1_024
MAX_RULES_FILE_BYTES = 2**23


class StreamRule(msgspec.Struct, frozen=True):
    value: str
    tag: str | None = None
    id: str | None = None  # assigned by X

    @property
    def content(self) -> tuple[str, str]:
        return self.value, self.tag or ""

    def line(self) -> str:
        return f"{self.value}\t{self.tag}" if self.tag else self.value


def read_rules(path: Path) -> list[StreamRule]:
    """The file has a rule on each line, its tag after a tab.

    Empty lines are skipped, and comments, which start with "# " (a hashtag has no space).
    """
    try:
        text = read_regular(path, MAX_RULES_FILE_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8, or too large"
        raise InputError(
            f"--rules: {path} cannot be read ({reason}); give a file of rules"
        ) from error
    rules = list(_parse_lines(path, text))
    if not rules:
        raise InputError(f"--rules: {path} holds no rule; write one on each line")
    if len(rules) > MAX_RULES:
        raise InputError(
            f"--rules: {path} holds {len(rules):,} rules; X takes {MAX_RULES:,} at most"
        )
    places = dict[str, str]()  # by the value of the rule
    for place, rule in rules:
        _check_rule(place, rule)
        if (other := places.setdefault(rule.value, place)) != place:
            raise InputError(f"--rules: {place}: the same rule as {other}; leave one of them out")
    return [rule for _, rule in rules]


def _parse_lines(path: Path, text: str) -> Iterator[tuple[str, StreamRule]]:
    for number, row in enumerate(text.split("\n"), 1):
        place, line = f"{path} line {number}", row.strip(" \r")
        if not line or line == "#" or line.startswith("# "):
            continue
        value, _, tag = line.partition("\t")
        yield place, StreamRule(value.strip(), tag.strip() or None)


def _check_rule(place: str, rule: StreamRule) -> None:
    if not rule.value.strip():
        raise InputError(f"--rules: {place}: an empty rule; leave it out")
    if len(rule.value) > MAX_RULE_CHARS:
        raise InputError(
            f"--rules: {place}: {len(rule.value):,} characters; X takes {MAX_RULE_CHARS:,}: "
            "split it"
        )
    if not all(text.isprintable() for text in rule.content):
        raise InputError(f"--rules: {place}: holds unprintable characters; remove them")


def compare_rules(
    current: Sequence[StreamRule], file_rules: Sequence[StreamRule]
) -> tuple[list[StreamRule], list[StreamRule]]:
    """The rules to add and to remove. A rule whose tag has changed is among both."""
    current_contents = {rule.content for rule in current}
    file_contents = {rule.content for rule in file_rules}
    return (
        [rule for rule in file_rules if rule.content not in current_contents],
        [rule for rule in current if rule.content not in file_contents],
    )


MAX_RULE_PAGES = 100
MAX_RULES_PER_REQUEST = 100
MAX_RESPONSE_BYTES = 2**24
POLL_S = 30.0  # between checks whether the file of rules has changed
MAX_REPORTED = 3  # refused rules that a message names
DUPLICATE = "duplicate-rules"
IGNORED_IN_DRY_RUN = (DUPLICATE, "rule-cap")  # there may be room once other rules are removed
log = logging.getLogger("newsift.collect")


class RuleProblem(msgspec.Struct):
    value: str | None = None
    title: str | None = None
    detail: str | None = None
    details: list[str] | None = None
    type: str | None = None

    def message(self) -> str:
        reason = "; ".join(self.details or ()) or self.detail or self.title or "no reason given"
        return f"{excerpt(self.value)!r}: {excerpt(reason)}" if self.value else excerpt(reason)


class Meta(msgspec.Struct):
    next_token: str | None = None


class RulesAnswer(msgspec.Struct):
    data: list[StreamRule] | None = None
    errors: list[RuleProblem] | None = None
    meta: Meta | None = None


class RuleBook:
    """The rules that X has for the app of a token, synchronised with a file."""

    def __init__(self, stream: URL, headers: Mapping[str, str], file: Path | None) -> None:
        """`stream` is the address of the filtered stream; `/rules` is below it."""
        self._url = stream.with_query(None) / "rules"
        self._place = stream.host_port_subcomponent or ""
        self._headers, self.file = headers, file
        self._file_version: tuple[int, int] | None = None  # of the file that X has
        self._was_synchronised, self._last_error = False, ""

    async def fetch(self, client: ClientSession) -> list[StreamRule]:
        rules, token = list[StreamRule](), ""
        for _ in range(MAX_RULE_PAGES):
            query = {"max_results": str(MAX_RULES)} | ({"pagination_token": token} if token else {})
            answer = await self._request(client, "GET", query)
            rules += answer.data or []
            next_token = (answer.meta.next_token if answer.meta else None) or ""
            if next_token in ("", token) or not answer.data:
                break
            token = next_token
        return rules

    async def plan_changes(
        self, client: ClientSession
    ) -> tuple[list[StreamRule], list[StreamRule], list[StreamRule]]:
        """The current rules, those to add, and those to remove."""
        assert self.file is not None
        file_rules = await asyncio.to_thread(read_rules, self.file)
        current = await self.fetch(client)
        return current, *compare_rules(current, file_rules)

    async def synchronise(self, client: ClientSession) -> None:
        """Raises errors the first time; later ones are only logged."""
        if self._was_synchronised:
            await self._synchronise_or_log(client)
        else:
            await self._synchronise(client)
            self._was_synchronised = True

    async def _synchronise(self, client: ClientSession) -> None:
        """Add and remove rules until X has those of the file.

        A dry run of all new rules comes first, so that nothing is removed if X refuses the file.
        """
        if self.file is None:
            return
        version = _version(self.file)  # None if the file is missing, which `read_rules` refuses
        if version is not None and version == self._file_version:
            return
        _, add, remove = await self.plan_changes(client)
        for part in _parts(add):
            await self._add(client, part, {"dry_run": "true"})
        for part in _parts(remove):
            ids = [rule.id for rule in part if rule.id]
            await self._request(client, "POST", {}, {"delete": {"ids": ids}})
        for part in _parts(add):
            await self._add(client, part, {})
        self._file_version = version
        log.info("rules of %s: %d added, %d removed", self._place, len(add), len(remove))

    def invalidate(self) -> None:
        """Compare with X again even if the file is unchanged."""
        self._file_version = None

    @asynccontextmanager
    async def watching_file(self, client: ClientSession) -> AsyncIterator[None]:
        """Synchronise whenever the file changes during the block; errors are only logged."""

        async def watch() -> None:
            while self.file is not None:
                await asyncio.sleep(POLL_S)
                await self._synchronise_or_log(client)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _synchronise_or_log(self, client: ClientSession) -> None:
        """The same error is logged once. A refused file is tried again when it changes."""
        version = None if self.file is None else _version(self.file)
        try:
            with connection_errors(self._place):
                await self._synchronise(client)
            self._last_error = ""
        except NewsiftError as error:
            if isinstance(error, InputError):
                self._file_version = version
            if str(error) != self._last_error:
                log.error("the rules stay as they were: %s", error)
            self._last_error = str(error)

    async def _add(
        self, client: ClientSession, rules: Sequence[StreamRule], query: dict[str, str]
    ) -> None:
        new = [{"value": r.value} | ({"tag": r.tag} if r.tag else {}) for r in rules]
        answer = await self._request(client, "POST", query, {"add": new})
        harmless = IGNORED_IN_DRY_RUN if query else (DUPLICATE,)
        errors = [e for e in answer.errors or () if not (e.type or "").endswith(harmless)]
        if errors:
            more = f", and {len(errors) - MAX_REPORTED} more" if len(errors) > MAX_REPORTED else ""
            problems = ", ".join(error.message() for error in errors[:MAX_REPORTED])
            raise InputError(f"--rules: {self.file}: X refuses {problems}{more}; correct the file")

    async def _request(
        self, client: ClientSession, method: str, query: dict[str, str], body: object = None
    ) -> RulesAnswer:
        url = self._url.with_query(query)
        async with client.request(method, url, json=body, headers=self._headers) as answer:
            content = await read_body(answer, MAX_RESPONSE_BYTES)
            if answer.status in (200, 201, 400):
                rules = decode_answer(RulesAnswer, content, f"{self._place}: its list of rules")
                if answer.status != 400 or any(error.value for error in rules.errors or ()):
                    return rules
            raise refusal_error(answer.status, answer.headers, content, self._place)


def _parts(rules: Sequence[StreamRule]) -> list[Sequence[StreamRule]]:
    size = MAX_RULES_PER_REQUEST
    return [rules[start : start + size] for start in range(0, len(rules), size)]


def _version(file: Path) -> tuple[int, int] | None:
    """Changes when the file is written; None if there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


STREAM_URL = "https://api.x.com/2/tweets/search/stream"
MAX_STALL_S = 25.0  # X sends a keep-alive every 20 s
MAX_ERROR_BYTES = 2**20
NO_RULES_STATUS = 409
LOWEST_ID = "0"
# The fields that worker/posts/x.py reads: long texts, reposted posts and their authors.
FIELDS = {
    "tweet.fields": "author_id,created_at,lang,note_tweet,referenced_tweets",
    "expansions": "author_id,referenced_tweets.id,referenced_tweets.id.author_id",
    "user.fields": "username",
}


class XStream:
    name = "x"

    def __init__(
        self,
        url: str,
        token: Secret,
        rules: Path | None = None,
        limit: int | None = None,
        stall_s: float = MAX_STALL_S,
    ) -> None:
        endpoint = require_no_login(parse_endpoint(url, "https", "http"))
        self._url = endpoint.with_query({**FIELDS, **endpoint.query})
        self.place = endpoint.host_port_subcomponent or ""
        self._headers = {"Authorization": f"Bearer {token.reveal()}"}
        self.rules = RuleBook(endpoint, self._headers, rules)
        self._posts_left = limit
        self._timeout = stream_timeout(min(stall_s, MAX_STALL_S))
        self._newest_id: str | None = None
        self._active_at: float | None = None  # when data arrived last
        # As https://docs.x.com/x-api/fundamentals/handling-disconnections asks.
        self._backoffs = {
            BUSY: Backoff(5.0, 320.0, jitter=0.0),
            LIMITED: Backoff(60.0, 960.0, jitter=0.0),
            CLOSED: Backoff(0.0, 16.0, factor=1.0, step=0.25, jitter=0.0),
        }

    def backoff(self, error: LostError) -> Backoff:
        return self._backoffs.get(error.reason, self._backoffs[CLOSED])

    async def arrivals(self, session: ClientSession, position: SourcePosition | None) -> Arrivals:
        """X sends no post twice, so each connection after the first starts with a Gap."""
        reset_at = 0.0
        try:
            with connection_errors(self.place):
                await self.rules.synchronise(session)
                request = session.get(self._url, headers=self._headers, timeout=self._timeout)
                async with request as answer:
                    await self._check(answer)
                    reset_at = time() + seconds_until_reset(answer.headers)
                    if position is not None:
                        self._newest_id = self._newest_id or str(position.cursor)
                        last = max(self._active_at or 0.0, position.at or 0.0)
                        yield Gap("X sends no post twice", seconds_since(last or None))
                    async with (
                        self.rules.watching_file(session),
                        aclosing(self._read_stream(answer)) as stream,
                    ):
                        async for frames in stream:
                            yield frames
                raise LostError(CLOSED, f"{self.place}: the stream ended")
        except LostError as lost:
            # X allows 50 connections in 15 minutes.
            lost.wait = max(lost.wait, reset_at - time())
            raise

    async def _read_stream(self, answer: ClientResponse) -> AsyncGenerator[list[SourceFrame], None]:
        """The posts of a connection, and a frame without a post at each keep-alive."""
        yield [self._keep_alive_frame()]
        lines = LineParser()
        async for chunk in answer.content.iter_any():
            frames, error = self._frames(lines.feed(chunk))
            yield frames or [self._keep_alive_frame()]
            if error is not None:
                raise error

    async def _check(self, answer: ClientResponse) -> None:
        if answer.status == 200:
            return
        if answer.status == NO_RULES_STATUS and self.rules.file:
            self.rules.invalidate()
            raise LostError(BUSY, f"{self.place}: has no rules any more")
        body = await read_body(answer, MAX_ERROR_BYTES)
        raise refusal_error(answer.status, answer.headers, body, self.place)

    def _frames(self, lines: Iterator[bytes]) -> tuple[list[SourceFrame], Exception | None]:
        """The frames of the lines, and the error that ends the connection after them."""
        self._active_at = time()
        frames = list[SourceFrame]()
        try:
            for line in filter(None, map(bytes.strip, lines)):
                frames.append(self._frame(line))
                if self._posts_left is not None:
                    self._posts_left -= 1
                    if self._posts_left <= 0:
                        return frames, SourceEndedError()
        except LostError as lost:
            return frames, lost
        return frames, None

    def _keep_alive_frame(self) -> SourceFrame:
        """A frame without a post that moves the time of the position."""
        self._active_at = time()
        return SourceFrame(b"", None, self._newest_id or LOWEST_ID, self._active_at)

    def _frame(self, line: bytes) -> SourceFrame:
        id = parse_post_id(line, self.place)
        if id is None:
            return SourceFrame(line, None, self._newest_id)
        if self._newest_id is None or (len(id), id) > (len(self._newest_id), self._newest_id):
            self._newest_id = id
        return SourceFrame(line, id.encode(), self._newest_id, time_of_id(id))
