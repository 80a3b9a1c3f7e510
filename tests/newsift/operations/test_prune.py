"""Which posts are pruned, against a slow reading of the topic of matches that results."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.operations.deletions import SourcedPost
from newsift.operations.prune import Author, PruneState
from worker.posts.outcome import Post

POSTS = [SourcedPost("mastodon", id, host) for id in "12" for host in (b"a.example", b"b.example")]
POSTS.append(SourcedPost("x", "1", b""))
NUMBERS = st.integers(0, len(POSTS) - 1)


class Topic:
    """The topic of matches, and a process that prunes it."""

    def __init__(self, most_early: int = 100) -> None:
        self.records: list[tuple[str, SourcedPost]] = []
        self.state = PruneState(most_early)

    def match(self, post: SourcedPost) -> None:
        self.records.append(("match", post))
        self.state.add_match(post)

    def delete(self, post: SourcedPost) -> None:
        self.state.add_event(post, f"{POSTS.index(post)} o'clock")

    def write(self) -> None:
        for post, at in self.state.take_due():
            assert at == f"{POSTS.index(post)} o'clock"
            self.records.append(("deletion", post))
            self.state.add_record(post, at)

    def restart(self) -> None:
        self.state = PruneState()
        for kind, post in self.records:
            if kind == "match":
                self.state.add_match(post)
            else:
                self.state.add_record(post, f"{POSTS.index(post)} o'clock")

    def of(self, post: SourcedPost) -> list[str]:
        return [kind for kind, each in self.records if each == post]


@given(st.lists(st.tuples(st.sampled_from(["match", "delete", "write"]), NUMBERS), max_size=40))
def test_after_each_match_of_a_deleted_post_stands_its_deletion(
    steps: list[tuple[str, int]],
) -> None:
    """In whatever order posts and deletions come, and none of another instance's post."""
    topic = Topic()
    for what, number in steps:
        if what == "write":
            topic.write()
        else:
            getattr(topic, what)(POSTS[number])
    topic.write()
    for number, post in enumerate(POSTS):
        kinds = topic.of(post)
        if ("delete", number) in steps and "match" in kinds:
            assert kinds[-1] == "deletion"
            assert ("deletion", "deletion") not in list(pairwise(kinds))
        else:
            assert "deletion" not in kinds


@given(st.lists(NUMBERS, max_size=20), st.lists(st.sampled_from([None, True, *range(5)])))
def test_a_restart_repeats_and_forgets_nothing(
    matches: list[int], steps: list[int | bool | None]
) -> None:
    """At a restart (True) the deletions come again that were read since the last commit (None)."""
    topic, uncommitted = Topic(), list[int]()
    for number in matches:
        topic.match(POSTS[number])
    for step in [*steps, None]:
        if step is None:
            topic.write()
            uncommitted = []
        elif step is True:
            topic.restart()
            for number in uncommitted:
                topic.delete(POSTS[number])
        else:
            topic.delete(POSTS[step])
            uncommitted.append(step)
    for number, post in enumerate(POSTS):
        is_deleted = any(step is not True and step == number for step in steps)
        expected = number in matches and is_deleted
        assert topic.of(post).count("deletion") == expected


def test_a_crash_between_the_record_and_the_commit_repeats_no_record() -> None:
    topic = Topic()
    topic.match(POSTS[0])
    topic.delete(POSTS[0])
    topic.write()
    topic.restart()
    topic.delete(POSTS[0])
    topic.write()
    assert topic.of(POSTS[0]) == ["match", "deletion"]


def test_the_newest_deletions_wait_for_their_posts() -> None:
    topic = Topic(most_early=2)
    for post in POSTS:
        topic.delete(post)
    for post in POSTS:
        topic.match(post)
    topic.write()
    assert [post for kind, post in topic.records if kind == "deletion"] == POSTS[-2:]


def post(platform: str, author: str | None, url: str | None = None) -> Post:
    return Post("1", platform, "words", author, url=url)


@pytest.mark.parametrize(
    ("platform", "name", "of", "instance", "expected"),
    [
        ("x", "@Anna", post("x", "anna"), b"", True),
        ("x", "anna", post("x", "annab"), b"", False),
        ("x", "anna", post("plain", "anna"), b"", False),
        ("plain", "anna", post("plain", "Anna"), b"", False),
        ("plain", "anna", post("plain", None), b"", False),
        ("bluesky", "did:plc:a", post("bluesky", "did:plc:a"), b"", True),
        ("mastodon", "@anna@A.example", post("mastodon", "anna@a.example"), b"b.example", True),
        ("mastodon", "anna@a.example", post("mastodon", "Anna"), b"a.example", True),
        ("mastodon", "anna@a.example", post("mastodon", "anna"), b"b.example", False),
        ("mastodon", "anna@a.example", post("mastodon", "anna", "https://a.example/@anna/1"), b"",
         True),
        ("mastodon", "anna@a.example", post("mastodon", "anna", "https://b.example/@anna/1"), b"",
         False),
        ("mastodon", "anna@a.example", post("mastodon", "anna", "https://[/"), b"", False),
    ],
)  # fmt: skip
def test_an_author_is_one_person(
    platform: str, name: str, of: Post, instance: bytes, expected: bool
) -> None:
    assert Author.parse(platform, name).wrote(of, instance) == expected


@pytest.mark.parametrize(
    ("platform", "name"),
    [("mastodon", "anna"), ("mastodon", "@anna@"), ("bluesky", "anna.bsky.social"), ("x", " @")],
)
def test_a_name_of_several_people_is_refused(platform: str, name: str) -> None:
    with pytest.raises(InputError, match="--author"):
        Author.parse(platform, name)
