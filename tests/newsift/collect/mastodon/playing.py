"""A source of an instance of a test, and the posts of its frames."""

from collections.abc import Sequence

from newsift.collect.mastodon import Mastodon, stream_address
from newsift.collect.source import SourceFrame
from tests.newsift.collect.mastodon.instance_side import TOKEN, FakeInstance
from worker.config.secret import Secret
from worker.posts.read import Post, read_post

STREAMING = "/api/v1/streaming"


def made(
    side: FakeInstance, socket: bool = False, stall_s: float = 20.0, most_pages: int = 100
) -> Mastodon:
    whole = side.url.with_scheme("ws").with_path(STREAMING) if socket else side.url
    address = stream_address(str(whole), None, None)
    return Mastodon(address, Secret(TOKEN), stall_s, most_pages)


def ids(frames: Sequence[SourceFrame]) -> list[str]:
    """The ids of frames as the worker reads them."""
    found = [read_post(frame.value) for frame in frames]
    assert all(isinstance(post, Post) for post in found), found
    return [post.id for post in found if isinstance(post, Post)]
