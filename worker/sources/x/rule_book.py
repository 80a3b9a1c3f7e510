"""The rules that X has for an app: listed, and kept in step with a file."""

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
from aiohttp import ClientSession
from yarl import URL

from encoder.errors import InputError, NewsiftError
from worker.sources.http import as_documented, excerpt, losing, whole
from worker.sources.x.rules import MOST, StreamRule, difference, rules_in
from worker.sources.x.said import turned_away

MOST_PAGES = 100  # of rules
AT_ONCE = 100  # rules of one request
LARGEST = 2**24  # bytes of an answer
LOOK_S = 30.0  # between looks at the file
TOLD = 3  # refused rules that a message names
DUPLICATE = "duplicate-rules"  # it is there already
TRIED = (DUPLICATE, "rule-cap")  # nor is there room while none is removed
log = logging.getLogger("newsift.collect")


class RuleProblem(msgspec.Struct):
    """Why X does not take a rule."""

    value: str | None = None
    title: str | None = None
    detail: str | None = None
    details: list[str] | None = None
    type: str | None = None

    def words(self) -> str:
        """The rule and what is wrong with it."""
        said = "; ".join(self.details or ()) or self.detail or self.title or "no reason given"
        return f"{excerpt(self.value)!r}: {excerpt(said)}" if self.value else excerpt(said)


class Meta(msgspec.Struct):
    """Where the next page of rules is."""

    next_token: str | None = None


class RulesAnswer(msgspec.Struct):
    """What X answers about rules."""

    data: list[StreamRule] | None = None
    errors: list[RuleProblem] | None = None
    meta: Meta | None = None


ANSWER = msgspec.json.Decoder(RulesAnswer)


class RuleBook:
    """The rules of the app that a token belongs to."""

    def __init__(self, stream: URL, headers: Mapping[str, str], file: Path | None) -> None:
        """`stream` is the address of the filtered stream; its rules stand below it."""
        self._url = stream.with_query(None) / "rules"
        self._place = stream.host_port_subcomponent or ""
        self._headers, self.file = headers, file
        self._seen: tuple[int, int] | None = None  # the file as X has it
        self._was_in_step, self._told = False, ""

    async def listed(self, client: ClientSession) -> list[StreamRule]:
        """All rules that X has."""
        found, token = list[StreamRule](), ""
        for _ in range(MOST_PAGES):
            query = {"max_results": str(MOST)} | ({"pagination_token": token} if token else {})
            answer = await self._ask(client, "GET", query, None)
            found += answer.data or []
            after = (answer.meta.next_token if answer.meta else None) or ""
            if after in ("", token) or not answer.data:
                break
            token = after
        return found

    async def planned(
        self, client: ClientSession
    ) -> tuple[list[StreamRule], list[StreamRule], list[StreamRule]]:
        """The rules that X has; which of the file it lacks; which it is to lose."""
        assert self.file is not None
        wanted = await asyncio.to_thread(rules_in, self.file)
        there = await self.listed(client)
        return there, *difference(there, wanted)

    async def step(self, client: ClientSession) -> None:
        """Be in step at the start of a connection; a file that was good once is only told."""
        if not self._was_in_step:
            await self._keep_step(client)
            self._was_in_step = True
            return
        await self._try(client)

    async def _keep_step(self, client: ClientSession) -> None:
        """Give X the rules of the file, and take from it what is not there; nothing if unchanged.

        All new rules are tried first, so that nothing is removed for a file that X refuses.
        """
        if self.file is None or (now := _state(self.file)) == self._seen:
            return
        _, add, remove = await self.planned(client)
        for part in _parts(add):
            await self._add(client, part, {"dry_run": "true"})
        for part in _parts(remove):
            ids = [rule.id for rule in part if rule.id]
            await self._ask(client, "POST", {}, {"delete": {"ids": ids}})
        for part in _parts(add):
            await self._add(client, part, {})
        self._seen = now
        log.info("rules of %s: %d added, %d removed", self._place, len(add), len(remove))

    def forget(self) -> None:
        """Compare with X again, whether the file has changed or not."""
        self._seen = None

    @asynccontextmanager
    async def in_step(self, client: ClientSession) -> AsyncIterator[None]:
        """Look at the file now and then while a stream stands; a bad one is told, and no more."""
        task = asyncio.create_task(self._look(client))
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _look(self, client: ClientSession) -> None:
        while self.file is not None:
            await asyncio.sleep(LOOK_S)
            await self._try(client)

    async def _try(self, client: ClientSession) -> None:
        """Be in step, or say once why not; a file that is refused is looked at when it changes."""
        now = None if self.file is None else _state(self.file)
        try:
            with losing(self._place):
                await self._keep_step(client)
            self._told = ""
        except NewsiftError as error:
            if isinstance(error, InputError):
                self._seen = now
            if str(error) != self._told:
                log.error("the rules stay as they were: %s", error)
            self._told = str(error)

    async def _add(
        self, client: ClientSession, rules: Sequence[StreamRule], query: dict[str, str]
    ) -> None:
        given = [{"value": r.value} | ({"tag": r.tag} if r.tag else {}) for r in rules]
        answer = await self._ask(client, "POST", query, {"add": given})
        passed = TRIED if query else (DUPLICATE,)
        bad = [e for e in answer.errors or () if not (e.type or "").endswith(passed)]
        if bad:
            more = f", and {len(bad) - TOLD} more" if len(bad) > TOLD else ""
            said = ", ".join(error.words() for error in bad[:TOLD])
            raise InputError(f"--rules: {self.file}: X refuses {said}{more}; correct the file")

    async def _ask(
        self, client: ClientSession, method: str, query: dict[str, str], body: object
    ) -> RulesAnswer:
        url = self._url.with_query(query)
        async with client.request(method, url, json=body, headers=self._headers) as answer:
            said = await whole(answer, LARGEST)
            if answer.status not in (200, 201, 400):
                raise turned_away(answer.status, answer.headers, said, self._place)
            found = as_documented(ANSWER, said, f"{self._place}: what it says of rules")
            if answer.status == 400 and not any(error.value for error in found.errors or ()):
                raise turned_away(answer.status, answer.headers, said, self._place)
            return found


def _parts(rules: Sequence[StreamRule]) -> list[Sequence[StreamRule]]:
    return [rules[start : start + AT_ONCE] for start in range(0, len(rules), AT_ONCE)]


def _state(file: Path) -> tuple[int, int] | None:
    """What changes when somebody writes the file; None where it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size
