"""X: the filtered stream of its API v2, and the rules that select its posts.

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
    endpoint,
    read_body,
    without_login,
)
from newsift.collect.source import (
    ANNOUNCED,
    BUSY,
    CLOSED,
    LIMITED,
    Arrivals,
    Backoff,
    EnoughError,
    Gap,
    LostError,
    SourceFrame,
    SourceMark,
    seconds_since,
)
from newsift.web.addresses import excerpt, retry_after, seconds_until
from newsift.web.client import limits
from worker.config.secret import Secret
from worker.errors import AccessError

IDENTITY = re.compile(r"[0-9]{1,19}")
EPOCH_MS = 1_288_834_974_657  # of the ids of X, in milliseconds since 1970
FIRST_SNOWFLAKE = 2**48  # ids below, of before 2011, hold no time
ENHANCE_YOUR_CALM = 420  # what X said before 429
REMEDIES = {
    401: "give the bearer token of an app",
    402: "buy credits for the app, then start again",
    403: "give the app access to the filtered stream",
    404: "give the address of the filtered stream to --url",
    409: "give it rules with --rules FILE",
}


class Problem(msgspec.Struct):
    """An error of X, alone or with inner errors."""

    title: str | None = None
    detail: str | None = None
    type: str | None = None
    disconnect_type: str | None = None
    connection_issue: str | None = None
    errors: list["Problem"] | None = None

    def words(self) -> str:
        inner = self.errors[0].words() if self.errors else ""
        kind = self.disconnect_type or self.connection_issue or self.title
        parts = dict.fromkeys((kind, self.detail or inner))
        return excerpt(": ".join(word for word in parts if word))

    @property
    def kind(self) -> str:
        """The last part of the type, which is an address."""
        return (self.type or "").rpartition("/")[2]

    def ends(self) -> bool:
        return (
            bool(self.disconnect_type or self.connection_issue)
            or self.kind in ("operational-disconnect", "streaming-connection", "usage-capped")
            or any(each.ends() for each in self.errors or ())
        )

    def limits(self) -> bool:
        """Whether there were too many connections, requests or posts."""
        return (
            self.connection_issue == "TooManyConnections"
            or self.kind in ("usage-capped", "rate-limit-exceeded")
            or any(each.limits() for each in self.errors or ())
        )


class DeliveredPost(msgspec.Struct):
    id: str | int


class Line(Problem):
    """A line of the stream: a post under `data`, or a problem."""

    data: DeliveredPost | None = None


LINE = msgspec.json.Decoder(Line)
PROBLEM = msgspec.json.Decoder(Problem)


def time_of_id(id: str) -> float | None:
    """Seconds since 1970, from the id; None if the id holds no time."""
    number = int(id) if id.isascii() and id.isdigit() else 0
    return ((number >> 22) + EPOCH_MS) / 1000 if number >= FIRST_SNOWFLAKE else None


def post_id(line: bytes, place: str) -> str | None:
    """None if the line holds no valid post.

    Raises LostError for a line that ends the connection.
    """
    try:
        event = LINE.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if event.data is not None:
        id = str(event.data.id)
        return id if IDENTITY.fullmatch(id) else None
    if event.ends():
        raise LostError(LIMITED if event.limits() else ANNOUNCED, f"{place} says: {event.words()}")
    return None


def refusal_error(
    status: int, headers: Mapping[str, str], body: bytes, place: str
) -> LostError | AccessError:
    """The error for an answer that is no stream: LostError if a retry may help."""
    try:
        problem = PROBLEM.decode(body)
        words = problem.words()
    except (msgspec.MsgspecError, RecursionError):
        problem, words = Problem(), excerpt(body)
    if status in (429, ENHANCE_YOUR_CALM) or problem.limits():
        message = f"{place} answers {status}{f' ({words})' if words else ''}"
        return LostError(LIMITED, message, max(until_window(headers), retry_after(headers)))
    remedy = REMEDIES.get(status, "correct the request")
    return answer_error(place, status, headers, words, remedy)


def until_window(headers: Mapping[str, str]) -> float:
    """Seconds until the next window of requests; 0 if requests are left."""
    if headers.get("x-rate-limit-remaining", "0").strip() != "0":
        return 0.0
    try:
        return seconds_until(float(headers.get("x-rate-limit-reset", "")), headers)
    except ValueError:
        return 0.0


MAX_RULES = 1_000
MAX_RULE_CHARS = 1_024  # characters
MAX_RULES_FILE_BYTES = 2**23  # bytes of a file


class StreamRule(msgspec.Struct, frozen=True):
    """A rule with its tag, and its id once X has assigned one."""

    value: str
    tag: str | None = None
    id: str | None = None

    @property
    def meaning(self) -> tuple[str, str]:
        return self.value, self.tag or ""

    def line(self) -> str:
        return f"{self.value}\t{self.tag}" if self.tag else self.value


RULE = msgspec.json.Decoder(StreamRule)
RULES = msgspec.json.Decoder(list[StreamRule])


def read_rules(path: Path) -> list[StreamRule]:
    """The rules of a file: one a line with its tag after a tab, or JSON as X writes it.

    Empty lines are skipped, and those that start with "# ": a hashtag has no space.
    """
    try:
        text = read_regular(path, MAX_RULES_FILE_BYTES).decode("utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8, or too large"
        raise InputError(
            f"--rules: {path} cannot be read ({reason}); give a file of rules"
        ) from error
    rules = list(_array(path, text) if text.lstrip().startswith("[") else _lines(path, text))
    if not rules:
        raise InputError(f"--rules: {path} holds no rule; write one a line")
    if len(rules) > MAX_RULES:
        raise InputError(
            f"--rules: {path} holds {len(rules):,} rules; X takes {MAX_RULES:,} at most"
        )
    values = dict[str, str]()
    for where, rule in rules:
        _check(where, rule)
        if (other := values.setdefault(rule.value, where)) != where:
            raise InputError(f"--rules: {where}: the same rule as {other}; leave one of them out")
    return [rule for _, rule in rules]


def _array(path: Path, text: str) -> Iterator[tuple[str, StreamRule]]:
    try:
        rules = RULES.decode(text)
    except msgspec.MsgspecError as error:
        raise InputError(f"--rules: {path} is no list of rules ({error})") from error
    for number, rule in enumerate(rules, 1):
        yield f"{path} rule {number}", rule


def _lines(path: Path, text: str) -> Iterator[tuple[str, StreamRule]]:
    for number, whole in enumerate(text.split("\n"), 1):
        where, line = f"{path} line {number}", whole.strip(" \r")
        if not line or line == "#" or line.startswith("# "):
            continue
        if not line.startswith("{"):
            value, _, tag = line.partition("\t")
            yield where, StreamRule(value.strip(), tag.strip() or None)
            continue
        try:
            yield where, RULE.decode(line)
        except msgspec.MsgspecError as error:
            message = f"--rules: {where} is no rule ({error}); give value and tag"
            raise InputError(message) from error


def _check(where: str, rule: StreamRule) -> None:
    if not rule.value.strip():
        raise InputError(f"--rules: {where}: an empty rule; leave it out")
    if len(rule.value) > MAX_RULE_CHARS:
        raise InputError(
            f"--rules: {where}: {len(rule.value):,} characters; X takes {MAX_RULE_CHARS:,}: "
            "make it two"
        )
    if not all(text.isprintable() for text in rule.meaning):
        raise InputError(f"--rules: {where}: holds characters that cannot be seen; remove them")


def compare_rules(
    current: Sequence[StreamRule], file_rules: Sequence[StreamRule]
) -> tuple[list[StreamRule], list[StreamRule]]:
    """The rules to add and to remove; a changed tag is both."""
    current_meanings = {rule.meaning for rule in current}
    file_meanings = {rule.meaning for rule in file_rules}
    return (
        [rule for rule in file_rules if rule.meaning not in current_meanings],
        [rule for rule in current if rule.meaning not in file_meanings],
    )


MAX_PAGES = 100  # of rules
AT_ONCE = 100  # rules of one request
MAX_RESPONSE_BYTES = 2**24  # bytes of an answer
POLL_S = 30.0  # between looks at the file
MAX_REPORTED = 3  # refused rules that a message names
DUPLICATE = "duplicate-rules"  # it is there already
IGNORED_IN_TRIAL = (DUPLICATE, "rule-cap")  # nor is there room while none is removed
log = logging.getLogger("newsift.collect")


class RuleProblem(msgspec.Struct):
    value: str | None = None
    title: str | None = None
    detail: str | None = None
    details: list[str] | None = None
    type: str | None = None

    def words(self) -> str:
        words = "; ".join(self.details or ()) or self.detail or self.title or "no reason given"
        return f"{excerpt(self.value)!r}: {excerpt(words)}" if self.value else excerpt(words)


class Meta(msgspec.Struct):
    next_token: str | None = None


class RulesAnswer(msgspec.Struct):
    data: list[StreamRule] | None = None
    errors: list[RuleProblem] | None = None
    meta: Meta | None = None


ANSWER = msgspec.json.Decoder(RulesAnswer)


class RuleBook:
    """The rules of the app that a token belongs to, kept equal to a file."""

    def __init__(self, stream: URL, headers: Mapping[str, str], file: Path | None) -> None:
        """`stream` is the address of the filtered stream; `/rules` is below it."""
        self._url = stream.with_query(None) / "rules"
        self._place = stream.host_port_subcomponent or ""
        self._headers, self.file = headers, file
        self._synchronised: tuple[int, int] | None = None  # the version of the file that X has
        self._was_synchronised, self._last_error = False, ""

    async def listed(self, client: ClientSession) -> list[StreamRule]:
        rules, token = list[StreamRule](), ""
        for _ in range(MAX_PAGES):
            query = {"max_results": str(MAX_RULES)} | ({"pagination_token": token} if token else {})
            answer = await self._request(client, "GET", query)
            rules += answer.data or []
            after = (answer.meta.next_token if answer.meta else None) or ""
            if after in ("", token) or not answer.data:
                break
            token = after
        return rules

    async def planned(
        self, client: ClientSession
    ) -> tuple[list[StreamRule], list[StreamRule], list[StreamRule]]:
        """The current rules, those to add, and those to remove."""
        assert self.file is not None
        file_rules = await asyncio.to_thread(read_rules, self.file)
        current = await self.listed(client)
        return current, *compare_rules(current, file_rules)

    async def synchronise(self, client: ClientSession) -> None:
        """At the start of a connection. After the first time errors are only logged."""
        if self._was_synchronised:
            await self._try(client)
        else:
            await self._synchronise(client)
            self._was_synchronised = True

    async def _synchronise(self, client: ClientSession) -> None:
        """Add and remove rules until X has those of the file.

        All new rules are tried first, so that nothing is removed for a file that X refuses.
        """
        if self.file is None or (version := _version(self.file)) == self._synchronised:
            return
        _, add, remove = await self.planned(client)
        for part in _parts(add):
            await self._add(client, part, {"dry_run": "true"})
        for part in _parts(remove):
            ids = [rule.id for rule in part if rule.id]
            await self._request(client, "POST", {}, {"delete": {"ids": ids}})
        for part in _parts(add):
            await self._add(client, part, {})
        self._synchronised = version
        log.info("rules of %s: %d added, %d removed", self._place, len(add), len(remove))

    def forget(self) -> None:
        """Compare with X again even if the file is unchanged."""
        self._synchronised = None

    @asynccontextmanager
    async def keep_synchronised(self, client: ClientSession) -> AsyncIterator[None]:
        """Look at the file repeatedly while a stream is open; errors are only logged."""

        async def watch() -> None:
            while self.file is not None:
                await asyncio.sleep(POLL_S)
                await self._try(client)

        task = asyncio.create_task(watch())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _try(self, client: ClientSession) -> None:
        """Synchronise, or log once why not. A refused file is tried again when it changes."""
        version = None if self.file is None else _version(self.file)
        try:
            with connection_errors(self._place):
                await self._synchronise(client)
            self._last_error = ""
        except NewsiftError as error:
            if isinstance(error, InputError):
                self._synchronised = version
            if str(error) != self._last_error:
                log.error("the rules stay as they were: %s", error)
            self._last_error = str(error)

    async def _add(
        self, client: ClientSession, rules: Sequence[StreamRule], query: dict[str, str]
    ) -> None:
        new = [{"value": r.value} | ({"tag": r.tag} if r.tag else {}) for r in rules]
        answer = await self._request(client, "POST", query, {"add": new})
        ignored = IGNORED_IN_TRIAL if query else (DUPLICATE,)
        bad = [e for e in answer.errors or () if not (e.type or "").endswith(ignored)]
        if bad:
            more = f", and {len(bad) - MAX_REPORTED} more" if len(bad) > MAX_REPORTED else ""
            problems = ", ".join(error.words() for error in bad[:MAX_REPORTED])
            raise InputError(f"--rules: {self.file}: X refuses {problems}{more}; correct the file")

    async def _request(
        self, client: ClientSession, method: str, query: dict[str, str], body: object = None
    ) -> RulesAnswer:
        url = self._url.with_query(query)
        async with client.request(method, url, json=body, headers=self._headers) as answer:
            content = await read_body(answer, MAX_RESPONSE_BYTES)
            if answer.status in (200, 201, 400):
                rules = decode_answer(ANSWER, content, f"{self._place}: what it says of rules")
                if answer.status != 400 or any(error.value for error in rules.errors or ()):
                    return rules
            raise refusal_error(answer.status, answer.headers, content, self._place)


def _parts(rules: Sequence[StreamRule]) -> list[Sequence[StreamRule]]:
    return [rules[start : start + AT_ONCE] for start in range(0, len(rules), AT_ONCE)]


def _version(file: Path) -> tuple[int, int] | None:
    """Changes when the file is written; None if there is no file."""
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


STREAM = "https://api.x.com/2/tweets/search/stream"
STALL_S = 25.0  # a keep-alive comes every 20 s
MAX_ERROR_BYTES = 2**20  # bytes of an answer that is an error
NO_RULES = 409
NO_POST = "0"  # an id
# What worker/posts/x.py reads: the whole text of long posts and of what was reposted, and whose.
FIELDS = {
    "tweet.fields": "author_id,created_at,lang,note_tweet,referenced_tweets",
    "expansions": "author_id,referenced_tweets.id,referenced_tweets.id.author_id",
    "user.fields": "username",
}


class XStream:
    """The filtered stream of the app that a token belongs to."""

    name = "x"

    def __init__(
        self,
        url: str,
        token: Secret,
        rules: Path | None = None,
        limit: int | None = None,
        stall_s: float = STALL_S,
    ) -> None:
        endpoint_url = without_login(endpoint(url, "https", "http"))
        self._url = endpoint_url.with_query({**FIELDS, **endpoint_url.query})
        self.place = endpoint_url.host_port_subcomponent or ""
        self._headers = {"Authorization": f"Bearer {token.reveal()}"}
        self.rules = RuleBook(endpoint_url, self._headers, rules)
        self._left, self._stall = limit, limits(min(stall_s, STALL_S))
        self._newest: str | None = None
        self._alive: float | None = None  # when something came last
        # As https://docs.x.com/x-api/fundamentals/handling-disconnections asks.
        self._pauses = {
            BUSY: Backoff(5.0, 320.0, jitter=0.0),
            LIMITED: Backoff(60.0, 960.0, jitter=0.0),
            CLOSED: Backoff(0.0, 16.0, factor=1.0, step=0.25, jitter=0.0),
        }

    def backoff(self, lost: LostError) -> Backoff:
        """At once, then a quarter of a second more each; longer for HTTP errors."""
        return self._pauses.get(lost.reason, self._pauses[CLOSED])

    async def arrivals(self, session: ClientSession, mark: SourceMark | None) -> Arrivals:
        """The posts of one connection, after a Gap if there was a connection before."""
        window = 0.0
        try:
            with connection_errors(self.place):
                await self.rules.synchronise(session)
                request = session.get(self._url, headers=self._headers, timeout=self._stall)
                async with request as answer:
                    await self._check(answer)
                    window = time() + until_window(answer.headers)
                    if gap := self._gap(mark):
                        yield gap
                    async with (
                        self.rules.keep_synchronised(session),
                        aclosing(self._frames_of_answer(answer)) as stream,
                    ):
                        async for frames in stream:
                            yield frames
                raise LostError(CLOSED, f"{self.place}: the stream ended")
        except LostError as lost:
            lost.wait = max(lost.wait, window - time())  # it was the last of 50 in 15 minutes
            raise

    async def _frames_of_answer(
        self, answer: ClientResponse
    ) -> AsyncGenerator[list[SourceFrame], None]:
        """The posts of a connection, and a frame without a post at each keep-alive."""
        yield [self._sign_of_life()]
        lines = LineParser()
        async for chunk in answer.content.iter_any():
            frames, end = self._frames(lines.feed(chunk))
            yield frames or [self._sign_of_life()]
            if end is not None:
                raise end

    async def _check(self, answer: ClientResponse) -> None:
        if answer.status == 200:
            return
        if answer.status == NO_RULES and self.rules.file:
            self.rules.forget()
            raise LostError(BUSY, f"{self.place}: has no rules any more")
        body = await read_body(answer, MAX_ERROR_BYTES)
        raise refusal_error(answer.status, answer.headers, body, self.place)

    def _gap(self, mark: SourceMark | None) -> Gap | None:
        """X sends nothing twice, so what was published meanwhile is lost."""
        if mark is None:
            return None
        self._newest = self._newest or str(mark.cursor)
        last = max(self._alive or 0.0, mark.at or 0.0)
        return Gap("X gives nothing twice", seconds_since(last or None))

    def _frames(self, lines: Iterator[bytes]) -> tuple[list[SourceFrame], Exception | None]:
        """The frames of lines up to the limit, and the error that ends the connection, if any."""
        self._alive = time()
        frames = list[SourceFrame]()
        try:
            for line in filter(None, map(bytes.strip, lines)):
                frames.append(self._frame(line))
                if self._left is not None:
                    self._left -= 1
                    if self._left <= 0:
                        return frames, EnoughError()
        except LostError as lost:
            return frames, lost
        return frames, None

    def _sign_of_life(self) -> SourceFrame:
        """A frame without a post that moves the time of the mark."""
        self._alive = time()
        return SourceFrame(b"", None, self._newest or NO_POST, self._alive)

    def _frame(self, line: bytes) -> SourceFrame:
        id = post_id(line, self.place)
        if id is None:
            return SourceFrame(line, None, self._newest)
        if self._newest is None or (len(id), id) > (len(self._newest), self._newest):
            self._newest = id
        return SourceFrame(line, id.encode(), self._newest, time_of_id(id))
