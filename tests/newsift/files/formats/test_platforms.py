import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.files.messages import FileMessage, MessageMaker
from newsift.files.platforms import FORMATS, ObjectKeys, ObjectReader
from newsift.files.tables import FileOptions
from tests.newsift.files.formats import forms
from tests.newsift.files.formats.test_posts import posts
from tests.newsift.files.formats.test_posts import read as read_file
from worker.config.limits import DEFAULT_LIMITS
from worker.posts.outcome import NO_POST, NO_WORDS, PassedOver, Post, Reason, Rejected
from worker.posts.read import read_post

KNOWN = [forms.TWEET, forms.PAGE, forms.FLATTENED, forms.VIEW, forms.SEARCHED, forms.STATUS,
         *forms.OUTBOX["orderedItems"], forms.SUBMISSION, forms.COMMENT, *forms.LISTING,
         forms.FOURCAT_TWEET, forms.FOURCAT_RETWEET, forms.FOURCAT_VIEW,
         forms.MESSAGE, forms.SERVICE, forms.OLD_MESSAGE, forms.OLD_SERVICE,
         {"id": "1", "text": "a"}, {"text": "a"}]  # fmt: skip
SMALL = st.recursive(
    st.none() | st.integers(-2, 2) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "t3", "Listing", "at://a/b/c", "Create", "message", "1e999"]),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["id", "data", "children", "kind"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
FIELDS = st.sampled_from(
    [
        *ObjectKeys.__struct_fields__,
        "id",
        "text",
        "includes",
        "replies",
        "title",
        "author_user",
        "attachments",
        "referenced_tweets",
    ]
)


def messages(value: bytes, **options: str) -> list[FileMessage]:
    objects = ObjectReader(MessageMaker("f", DEFAULT_LIMITS), FileOptions(**options))
    return list(objects.messages(value, 1))


@settings(max_examples=100)
@given(st.sampled_from(KNOWN), st.dictionaries(FIELDS, SMALL, max_size=4), st.sets(FIELDS),
       st.sampled_from(["auto", *FORMATS]))  # fmt: skip
def test_no_object_raises_and_every_value_is_read_again_alike(
    base: dict[str, Any], changes: dict[str, Any], gone: set[str], form: str
) -> None:
    whole = {name: part for name, part in (base | changes).items() if name not in gone}
    for message in messages(json.dumps(whole).encode(), format=form):
        assert isinstance(message.reading, Rejected) or not message.value or (
            read_post(message.value) == message.reading
        )  # fmt: skip


@settings(max_examples=100)
@given(st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
def test_bytes_that_are_no_object_are_bad_rows(wild: bytes) -> None:
    assert messages(b"[" + wild)
    (message,) = messages(wild + b"{")
    assert isinstance(message.reading, Rejected)


@pytest.mark.parametrize("opened", [b'{"data":[', b'{"kind":"Listing","data":{"children":['])
def test_lists_without_end_and_nests_without_bottom_are_bad_rows(opened: bytes) -> None:
    (wide,) = messages(opened + b"{}," * 20_000 + b"{}]" + b"}" * opened.count(b"{"))
    assert isinstance(wide.reading, Rejected)
    assert wide.reading.reason is Reason.LIST_ITEMS
    (deep,) = messages(b'{"data":' * 5000 + b"1" + b"}" * 5000)
    assert isinstance(deep.reading, Rejected)
    assert deep.reading.reason is Reason.TOO_DEEP


Read = Callable[..., list[FileMessage]]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def reading(content: object, name: str = "f.json", **options: str) -> list[FileMessage]:
        file = tmp_path / name
        file.write_text(content if isinstance(content, str) else json.dumps(content), "utf-8")
        return read_file(file, **options)

    return reading


def json_lines(*values: object) -> str:
    return "".join(json.dumps(value) + "\n" for value in values)


@pytest.mark.parametrize("layout", ["line", "pretty", "array"])
def test_a_page_of_twarc2_has_whole_retweets_and_authors(read: Read, layout: str) -> None:
    content = {
        "line": json_lines(forms.PAGE, forms.NO_TWEETS),
        "pretty": json.dumps(forms.PAGE, indent=2),
        "array": json.dumps([forms.PAGE]),
    }[layout]
    result = read(content)
    retweet, bare = posts(result)
    assert (retweet.id, retweet.author) == (forms.TWEET["id"], "ben")
    assert retweet.text == forms.ORIGINAL["text"]
    assert (bare.platform, bare.author, bare.text) == ("x", "ann", forms.BARE["text"])
    assert len(result) == 2
    assert forms.ORIGINAL["text"].encode() not in result[1].value


def test_tweets_line_by_line_and_in_arrays(read: Read) -> None:
    for result in (
        read(json_lines(forms.FLATTENED, forms.OLD_TWEET)),
        read([forms.FLATTENED, forms.OLD_TWEET]),
        read({"statuses": [forms.OLD_TWEET], "search_metadata": {}}),
    ):
        assert [post.platform for post in posts(result)] == ["x"] * len(result)
        assert posts(result)[-1].text == "an old one"
    assert posts(read(json_lines(forms.FLATTENED)))[0].text == forms.ORIGINAL["text"]


def test_what_pictures_show_and_links_are_read_from_every_export(read: Read) -> None:
    picture = {"media_key": "3_1", "type": "photo", "alt_text": "A ferry"}
    tweet = forms.BARE | {"conversation_id": "20", "attachments": {"media_keys": ["3_1"]}}
    other = {"media_key": "3_2", "type": "photo", "alt_text": "Of another tweet"}
    page = forms.PAGE | {"data": [tweet], "includes": {"media": [other, picture]}}
    note = forms.NOTE | {"attachment": [{"type": "Document", "name": "A ferry"}, "odd", {}]}
    item = forms.OUTBOX["orderedItems"][0] | {"object": note}
    flat = tweet | {"attachments": {"media_keys": ["3_1"], "media": [picture]}}
    outbox = forms.OUTBOX | {"orderedItems": [item]}
    for content in map(json_lines, (page, flat, outbox)):
        (post,) = posts(read(content))
        assert post.alt == ("A ferry",)
    linked = forms.SUBMISSION | {"is_self": False, "url": "https://news.example/ferry"}
    chat = forms.MESSAGE | {"text": [
        {"type": "link", "text": "https://news.example/ferry"}, "x",
        {"type": "text_link", "text": "here", "href": "https://news.example/fire"},
    ]}  # fmt: skip
    (post,) = posts(read(json_lines(linked)))
    assert post.links == ("https://news.example/ferry",)
    (post,) = posts(read(forms.CHAT | {"messages": [chat]}))
    assert post.links == ("https://news.example/ferry", "https://news.example/fire")


def test_a_page_that_would_grow_without_bound_is_a_bad_row(read: Read) -> None:
    refer = [{"type": "quoted", "id": "9"}]
    tweets = [{"id": str(n), "text": "a", "referenced_tweets": refer} for n in range(2000)]
    page = {"data": tweets, "includes": {"tweets": [{"id": "9", "text": "x" * 60_000}]}}
    result = read(json_lines(page))
    assert isinstance(result[-1].reading, Rejected)
    assert "refers to too much" in result[-1].reading.detail
    assert sum(len(message.value) for message in result) < 10 * len(json.dumps(page))


@pytest.mark.parametrize(
    "content", [forms.SEARCHED, {"posts": [forms.VIEW]}, [forms.VIEW], json_lines(forms.VIEW)]
)
def test_bluesky_s_posts_are_those_of_its_jetstream(read: Read, content: Any) -> None:
    (message,) = read(content)
    assert message.reading == Post(
        id="at://did:plc:abc/app.bsky.feed.post/3kxyz", platform="bluesky",
        text="Smoke on the ferry", author="did:plc:abc", created_at="2024-06-01T10:00:00.000Z",
        lang="en", url="https://bsky.app/profile/did:plc:abc/post/3kxyz",
    )  # fmt: skip


def test_mastodon_s_outbox_and_statuses(read: Read) -> None:
    for content in (json.dumps(forms.OUTBOX), json.dumps(forms.OUTBOX, indent=1)):
        note, shared = read(content, "outbox.json")
        assert note.reading == Post(
            id="109372843234", platform="mastodon", text="Smoke on the ferry", author="ann",
            created_at="2022-11-20T09:00:00Z", lang="en",
            url="https://social.example/@ann/109372843234",
        )  # fmt: skip
        assert (shared.reading, shared.value) == (NO_POST, b"")
    for content in (json.dumps([forms.STATUS]), json.dumps({"statuses": [forms.STATUS]})):
        (status,) = posts(read(content))
        assert (status.platform, status.text) == ("mastodon", "Hello")


def test_reddit_s_dumps_and_listings(read: Read) -> None:
    result = posts(read(json_lines(forms.SUBMISSION, forms.COMMENT), "RS.zst.jsonl"))
    assert result[0] == Post(
        id="t3_abc12", platform="plain", text="Ferry on fire\n\nSmoke over Port Maren",
        author="ann", created_at="2023-11-14T22:13:20Z",
        url="https://www.reddit.com/r/news/comments/abc12/ferry_on_fire/",
    )  # fmt: skip
    assert (result[1].id, result[1].text, result[1].created_at) == (
        "t1_c1", "I saw the smoke", "2023-11-14T22:15:00Z",
    )  # fmt: skip
    assert [post.id for post in posts(read(forms.LISTING))] == ["t3_abc12", "t1_c1", "t1_c2"]
    searched = {"data": [forms.SUBMISSION, forms.COMMENT], "error": None}
    assert [post.id for post in posts(read(searched))] == ["t3_abc12", "t1_c1"]
    gone = forms.COMMENT | {"body": "[deleted]"}
    assert read(json_lines(gone))[0].reading == NO_WORDS


@pytest.mark.parametrize("indent", [None, 1])
def test_telegram_s_exports(read: Read, indent: int | None) -> None:
    service, message = read(json.dumps(forms.CHAT, indent=indent))
    assert isinstance(service.reading, PassedOver)
    assert message.reading == Post(
        id="5/2", platform="plain", text="Smoke on the ferry!", author="Harbour",
        created_at="2023-11-14T22:13:20Z",
    )  # fmt: skip
    assert message.place == "item 2"
    result = posts(read(json.dumps(forms.ALL_CHATS, indent=indent)))
    assert [post.id for post in result] == ["5/2", "6/2"]


@pytest.mark.parametrize("form", ["auto", "telegram"])
def test_older_exports_of_telegram_have_the_date_alone(read: Read, form: str) -> None:
    plain = forms.OLD_MESSAGE | {"id": 4, "text": "Smoke"}
    chat = forms.OLD_CHAT | {"messages": [*forms.OLD_CHAT["messages"], plain]}
    service, message, other, last = read(chat, format=form)
    assert (service.reading, other.reading) == (NO_POST, NO_POST)
    assert message.reading == Post(
        id="5/2", platform="plain", text="Smoke: https://news.example/ferry", author="Harbour",
        created_at="2019-05-01T12:00:00Z", links=("https://news.example/ferry",),
    )  # fmt: skip
    assert [post.id for post in posts([last])] == ["5/4"]


def test_4cat_s_tables(read: Read) -> None:
    (message,) = read("\n".join(forms.FOURCAT_TWITTER), "4cat.csv")
    assert message.reading == Post(
        id="20", platform="plain", text="Smoke, on\nthe ferry", author="ann",
        created_at="2022-10-12T08:00:00Z", lang="en", url="https://twitter.com/ann/status/20",
        links=("https://news.example/a,b", "https://b.example/fire?x=1,y"),
    )  # fmt: skip
    assert message.columns is not None
    assert list(message.columns) == forms.FOURCAT_TWITTER[0].split(",")
    (old,) = posts(read("\n".join(forms.FOURCAT_OLD), "4cat.csv"))
    assert old.created_at == "2022-10-12T08:00:00Z"  # 4CAT's times are UTC


def test_what_a_post_links_to_stands_in_4cat_s_tables(read: Read) -> None:
    (post,) = posts(read("\n".join(forms.FOURCAT_BLUESKY), "4cat.csv"))
    assert post.links == ("https://news.example/2026/ferry-fire",)
    assert post.url == "https://bsky.app/profile/ann.example.org/post/3kxyz"
    assert post.created_at == "2024-06-01T10:00:00Z"
    reddit = "\n".join(forms.FOURCAT_REDDIT)
    linking, own, comment, removed = posts(read(reddit, "4cat.csv"))
    assert (linking.text, linking.url) == ("Ferry on fire", None)
    assert linking.links == ("https://news.example/ferry",)
    assert (own.text, own.url, own.links) == ("Ferry\n\nSmoke", "https://www.reddit.com/r/a", ())
    assert (comment.text, comment.url, comment.links) == ("I saw the smoke", None, ())
    assert removed.text == "Gone"
    chosen, *_ = posts(read(reddit, "4cat.csv", text="subject", link="url"))
    assert (chosen.text, chosen.url) == ("Ferry on fire", "https://news.example/ferry")
    header, row = forms.FOURCAT_BLUESKY
    many = row.replace(
        "https://news.example/2026/ferry-fire", '"' + "https://a.example/b," * 50_000 + '"'
    )
    (post,) = posts(read(f"{header}\n{many}", "4cat.csv"))
    assert post.links == ("https://a.example/b",)


def test_4cat_s_json_has_authors_pictures_and_times(read: Read) -> None:
    tweet, retweet = posts(read(json_lines(forms.FOURCAT_TWEET, forms.FOURCAT_RETWEET)))
    assert (tweet.id, tweet.author, tweet.alt) == ("20", "ann", ("A ferry",))
    assert (retweet.author, retweet.text) == ("ben", forms.BARE["text"])
    assert retweet.alt == ("A ferry",)
    bare = forms.FOURCAT_TWEET | {"author_user": None, "attachments": None}
    (post,) = posts(read([bare]))
    assert (post.author, post.alt) == ("11", ())
    (view,) = posts(read(json_lines(forms.FOURCAT_VIEW)))
    assert (view.created_at, view.author) == ("2024-06-01T10:00:00.000Z", "did:plc:abc")


@pytest.mark.parametrize("name", ["twarc", "bluesky", "mastodon", "reddit", "telegram"])
def test_a_platform_that_is_named_takes_no_other_s_posts(read: Read, name: str) -> None:
    own = {"twarc": forms.PAGE, "bluesky": forms.SEARCHED, "mastodon": [forms.STATUS],
           "reddit": forms.LISTING, "telegram": forms.CHAT}  # fmt: skip
    for other, content in own.items():
        if other == name:
            assert posts(read(content, format=name))
        else:
            with pytest.raises(InputError, match=f"not a post of --format {name}"):
                read(content, format=name)
