"""The public streams of an instance: their paths, and the timelines that hold the same posts."""

from dataclasses import dataclass
from urllib.parse import quote

from yarl import URL

from encoder.errors import InputError
from worker.sources.http import WEB_SCHEMES, endpoint, without_login

STREAMING = "/api/v1/streaming"
PATHS = {
    "public": "/public",
    "public:local": "/public/local",
    "public:remote": "/public/remote",
    "hashtag": "/hashtag",
    "hashtag:local": "/hashtag/local",
}
LONGEST_TAG = 500  # characters


@dataclass(frozen=True, slots=True)
class Feed:
    """A stream by its documented name, and the tag of a hashtag's."""

    name: str = "public"
    tag: str = ""

    def __post_init__(self) -> None:
        if self.name not in PATHS:
            raise InputError(f"--stream: {self.name!r}; give one of {', '.join(PATHS)}")
        if self.tags and not 0 < len(self.tag) <= LONGEST_TAG:
            raise InputError(f"--stream {self.name}: needs a tag; give --tag NAME")
        if self.tag and not self.tags:
            raise InputError(f"--tag: is not for the stream {self.name}; give --stream hashtag")

    @property
    def tags(self) -> bool:
        """Whether it is the stream of one tag."""
        return self.name.startswith("hashtag")

    @property
    def parts(self) -> tuple[str, ...]:
        """Which halves of the instance's posts it holds: those of its own people, and others'."""
        half = self.name.partition(":")[2]
        return (half,) if half else ("local", "remote")

    def stream(self, host: URL) -> URL:
        """Where it is streamed from."""
        url = host.with_path(STREAMING + PATHS[self.name])
        return url.with_query(tag=self.tag) if self.tags else url

    def timeline(self, host: URL) -> URL:
        """The timeline with the same posts."""
        tag = f"/tag/{quote(self.tag, safe='')}" if self.tags else "/public"
        url = host.with_path(f"/api/v1/timelines{tag}", encoded=True)
        half = self.name.partition(":")[2]
        return url.with_query({half: "true"}) if half else url


@dataclass(frozen=True, slots=True)
class StreamAddress:
    """What --url names: an instance, or one stream of it."""

    host: URL  # with no path: the REST API stands there
    feed: Feed
    exact: URL | None = None  # the stream's own address, where that was given

    @property
    def place(self) -> str:
        """Whose ids the posts have."""
        return self.host.host_port_subcomponent or ""


def stream_address(url: str, stream: str | None, tag: str | None) -> StreamAddress:
    """Where to collect from: --url with --stream and --tag, or all of it in the address."""
    given = without_login(endpoint(url, "https", "http", "wss", "ws"))
    web = given.with_scheme(WEB_SCHEMES.get(given.scheme, given.scheme))
    host = web.origin()
    named = tag.removeprefix("#") if tag else ""
    if web.path in ("", "/"):
        return StreamAddress(host, Feed(stream or "public", named))
    known = _feed_of(web)
    feed = known or Feed(stream or "public", named)
    if (stream and stream != feed.name) or (named and named != feed.tag):
        raise InputError(f"--stream: --url is that of {feed.name} already; leave one of them out")
    return StreamAddress(host, feed, _exact(given, feed))


def _exact(given: URL, feed: Feed) -> URL:
    """The address of a stream: a web socket is told which one it is to be, if it is not yet."""
    if given.scheme not in WEB_SCHEMES:
        return feed.stream(given) if given.path == STREAMING else given
    asked = {"stream": feed.name} | ({"tag": feed.tag} if feed.tags else {})
    return given.update_query({**asked, **given.query})


def _feed_of(url: URL) -> Feed | None:
    """The stream that an address names by its path, or as a web socket's does."""
    name = url.query.get("stream", "") if url.path == STREAMING else ""
    for known, path in PATHS.items():
        if url.path == STREAMING + path:
            name = known
    return Feed(name, url.query.get("tag", "").removeprefix("#")) if name in PATHS else None
