"""What X says on a stream besides posts, and what an answer means that is no stream."""

import re
from collections.abc import Mapping

import msgspec

from worker.errors import AccessError
from worker.sources.http import excerpt, is_refusal, retry_after, seconds_until
from worker.sources.source import BUSY, LIMITED, TOLD, LostError

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
    """An error as X tells it: by itself, or in a list of them."""

    title: str | None = None
    detail: str | None = None
    type: str | None = None
    disconnect_type: str | None = None
    connection_issue: str | None = None
    errors: list["Problem"] | None = None

    def words(self) -> str:
        """What it says, in one short line."""
        inner = self.errors[0].words() if self.errors else ""
        kind = self.disconnect_type or self.connection_issue or self.title
        told = dict.fromkeys((kind, self.detail or inner))
        return excerpt(": ".join(word for word in told if word))

    def ends(self) -> bool:
        """Whether the connection ends with it."""
        kind = (self.type or "").rpartition("/")[2]
        return (
            bool(self.disconnect_type or self.connection_issue)
            or kind in ("operational-disconnect", "streaming-connection", "usage-capped")
            or any(each.ends() for each in self.errors or ())
        )

    def limits(self) -> bool:
        """Whether it is because of too much: connections, requests or posts."""
        kind = (self.type or "").rpartition("/")[2]
        return (
            self.connection_issue == "TooManyConnections"
            or kind in ("usage-capped", "rate-limit-exceeded")
            or any(each.limits() for each in self.errors or ())
        )


class Delivered(msgspec.Struct):
    """A post, of which only the id is read."""

    id: str | int


class Line(Problem):
    """A line of the stream: a post under `data`, or a problem."""

    data: Delivered | None = None


LINE = msgspec.json.Decoder(Line)
PROBLEM = msgspec.json.Decoder(Problem)


def posted_at(id: str) -> float | None:
    """When a post was made, by its id, in seconds since 1970; None where it holds no time."""
    number = int(id) if id.isascii() and id.isdigit() else 0
    return ((number >> 22) + EPOCH_MS) / 1000 if number >= FIRST_SNOWFLAKE else None


def delivered_id(line: bytes, place: str) -> str | None:
    """The id of a line's post; None where the worker is to say what it is.

    Raises what a line means by which the connection ends.
    """
    try:
        found = LINE.decode(line)
    except (msgspec.MsgspecError, RecursionError):
        return None
    if found.data is not None:
        id = str(found.data.id)
        return id if IDENTITY.fullmatch(id) else None
    if found.ends():
        raise LostError(LIMITED if found.limits() else TOLD, f"{place} says: {found.words()}")
    return None


def turned_away(status: int, headers: Mapping[str, str], body: bytes, place: str) -> Exception:
    """What an answer means that is no stream: another attempt after a while, or none."""
    try:
        found = PROBLEM.decode(body)
        words = found.words()
    except (msgspec.MsgspecError, RecursionError):
        found, words = Problem(), excerpt(body)
    said = f"{place} answers {status}{f' ({words})' if words else ''}"
    if status in (429, ENHANCE_YOUR_CALM) or found.limits():
        return LostError(LIMITED, said, max(until_window(headers), retry_after(headers)))
    if is_refusal(status):
        return AccessError(f"{said}; {REMEDIES.get(status, 'correct the request')}")
    return LostError(BUSY, said, retry_after(headers))


def until_window(headers: Mapping[str, str]) -> float:
    """The seconds until the window of requests begins anew, where this one's are used up."""
    if headers.get("x-rate-limit-remaining", "0").strip() != "0":
        return 0.0
    try:
        return seconds_until(float(headers.get("x-rate-limit-reset", "")), headers)
    except ValueError:
        return 0.0
