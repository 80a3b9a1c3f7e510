"""What platforms and tools export, in the forms that their documents and sources show.

twarc2: github.com/DocNow/twarc, src/twarc/expansions.py (pages, `flatten`); v1.1: docs/posts.md.
Bluesky: github.com/bluesky-social/atproto, lexicons/app/bsky/feed/searchPosts.json, defs.json.
Mastodon: app/services/backup_service.rb of github.com/mastodon/mastodon (outbox.json in one line),
docs.joinmastodon.org/spec/activitypub, /entities/Status.
Telegram: Telegram/SourceFiles/export/output/export_output_json.cpp of
github.com/telegramdesktop/tdesktop.
Reddit: the Pushshift Reddit Dataset (arXiv 2001.08435); reddit.com/dev/api (listings).
4CAT: enrich_tweet and map_item of datasources/twitterv2/search_twitter.py, get_items and map_item
of bsky/search_bsky.py, thread_to_4cat and post_to_4cat of reddit/search_reddit.py of
github.com/digitalmethodsinitiative/4cat.
"""

from typing import Any

TWEET: dict[str, Any] = {
    "id": "1580000000000000002", "text": "RT @ann: Smoke on the fer…", "author_id": "12",
    "created_at": "2022-10-12T08:00:00.000Z", "lang": "en",
    "conversation_id": "1580000000000000002", "edit_history_tweet_ids": ["1580000000000000002"],
    "public_metrics": {"retweet_count": 4},
    "referenced_tweets": [{"type": "retweeted", "id": "1580000000000000001"}],
}  # fmt: skip
ORIGINAL = {
    "id": "1580000000000000001", "author_id": "11",
    "text": "Smoke on the ferry off Port Maren, we are in the lifeboats",
}  # fmt: skip
BARE = {"id": "20", "text": "just setting up", "author_id": "11"}
ANN = {"id": "11", "name": "Ann", "username": "ann"}
BEN = {"id": "12", "name": "Ben", "username": "ben"}
PAGE = {
    "data": [TWEET, BARE],
    "includes": {"users": [ANN, BEN], "tweets": [ORIGINAL]},
    "meta": {"newest_id": "2", "oldest_id": "1", "result_count": 2, "next_token": "x"},
    "__twarc": {"url": "https://api.twitter.com/2/tweets/search/all", "version": "2.13.0"},
}
NO_TWEETS = {"meta": {"result_count": 0}, "__twarc": {"version": "2.13.0"}}
FLATTENED = TWEET | {
    "author": BEN, "referenced_tweets": [{"type": "retweeted"} | ORIGINAL | {"author": ANN}],
}  # fmt: skip
OLD_TWEET = {
    "id": 1050118621198921728, "id_str": "1050118621198921728", "full_text": "an old one",
    "created_at": "Wed Oct 10 20:19:24 +0000 2018", "user": {"screen_name": "ann"}, "lang": "en",
}  # fmt: skip

VIEW = {
    "uri": "at://did:plc:abc/app.bsky.feed.post/3kxyz", "cid": "bafy",
    "author": {"did": "did:plc:abc", "handle": "ann.example.org", "displayName": "Ann"},
    "record": {"$type": "app.bsky.feed.post", "createdAt": "2024-06-01T10:00:00.000Z",
               "langs": ["en"], "text": "Smoke on the ferry"},
    "replyCount": 0, "repostCount": 1, "likeCount": 2, "quoteCount": 0,
    "indexedAt": "2024-06-01T10:00:01.000Z", "labels": [],
}  # fmt: skip
SEARCHED = {"cursor": "25", "hitsTotal": 1, "posts": [VIEW]}

NOTE = {
    "id": "https://social.example/users/ann/statuses/109372843234", "type": "Note",
    "summary": None, "inReplyTo": None, "published": "2022-11-20T09:00:00Z",
    "url": "https://social.example/@ann/109372843234",
    "attributedTo": "https://social.example/users/ann", "sensitive": False,
    "content": "<p>Smoke on the <b>ferry</b></p>", "contentMap": {"en": "<p>Smoke…</p>"},
}  # fmt: skip
OUTBOX: dict[str, Any] = {
    "@context": "https://www.w3.org/ns/activitystreams", "id": "outbox.json",
    "type": "OrderedCollection", "totalItems": 2,
    "orderedItems": [
        {"id": f"{NOTE['id']}/activity", "type": "Create",
         "actor": "https://social.example/users/ann", "published": "2022-11-20T09:00:00Z",
         "to": [], "cc": [], "object": NOTE},
        {"id": "https://social.example/users/ann/statuses/2/activity", "type": "Announce",
         "actor": "https://social.example/users/ann", "published": "2022-11-21T09:00:00Z",
         "object": "https://other.example/users/ben/statuses/9"},
    ],
}  # fmt: skip
STATUS: dict[str, Any] = {
    "id": "109372843235", "created_at": "2022-11-20T09:00:00.000Z", "content": "<p>Hello</p>",
    "spoiler_text": "", "language": "en", "uri": "https://social.example/users/ann/statuses/1",
    "url": "https://social.example/@ann/1", "account": {"acct": "ann"}, "reblog": None,
}  # fmt: skip

SUBMISSION = {
    "id": "abc12", "title": "Ferry on fire", "selftext": "Smoke over Port Maren", "author": "ann",
    "created_utc": 1700000000, "subreddit": "news", "is_self": True, "num_comments": 2,
    "permalink": "/r/news/comments/abc12/ferry_on_fire/", "url": "https://example.org",
}  # fmt: skip
COMMENT: dict[str, Any] = {
    "id": "c1", "body": "I saw the smoke", "author": "ben", "created_utc": "1700000100",
    "subreddit": "news", "link_id": "t3_abc12", "parent_id": "t3_abc12", "score": 2,
}  # fmt: skip
DEEPER = COMMENT | {"id": "c2", "name": "t1_c2", "body": "so did I", "replies": ""}
LISTING = [
    {"kind": "Listing", "data": {"after": None, "children": [{"kind": "t3", "data": SUBMISSION}]}},
    {"kind": "Listing", "data": {"after": None, "children": [
        {"kind": "t1", "data": COMMENT | {"replies": {"kind": "Listing", "data": {"children": [
            {"kind": "t1", "data": DEEPER}, {"kind": "more", "data": {"count": 3}}]}}}},
    ]}},
]  # fmt: skip

SERVICE = {
    "id": 1, "type": "service", "date": "2023-11-14T23:13:20", "date_unixtime": "1700000000",
    "actor": "Harbour", "actor_id": "channel5", "action": "pin_message", "text": "",
    "text_entities": [],
}  # fmt: skip
MESSAGE = {
    "id": 2, "type": "message", "date": "2023-11-14T23:13:20", "date_unixtime": "1700000000",
    "from": "Harbour", "from_id": "channel5",
    "text": ["Smoke on ", {"type": "bold", "text": "the ferry"}, "!"],
    "text_entities": [{"type": "plain", "text": "Smoke on "}],
}  # fmt: skip
CHAT = {"name": "Harbour", "type": "public_channel", "id": 5, "messages": [SERVICE, MESSAGE]}
OLD_SERVICE = {
    "id": 1, "type": "service", "date": "2019-05-01T10:00:00", "actor": "Harbour", "actor_id": 5,
    "action": "create_channel", "title": "Harbour", "text": "",
}  # fmt: skip
OLD_MESSAGE = {
    "id": 2, "type": "message", "date": "2019-05-01T12:00:00", "edited": "1970-01-01T01:00:00",
    "from": "Harbour", "from_id": 4300000005,
    "text": ["Smoke: ", {"type": "link", "text": "https://news.example/ferry"}],
}  # fmt: skip
OLD_CHAT: dict[str, Any] = {
    "name": "Harbour", "type": "public_channel", "id": 5,
    "messages": [OLD_SERVICE, OLD_MESSAGE, {"id": 3, "type": "unsupported"}],
}  # fmt: skip
ALL_CHATS = {
    "about": "Here is the data you requested.", "personal_information": {"user_id": 1},
    "chats": {"about": "", "list": [CHAT, CHAT | {"id": 6}]},
}  # fmt: skip

FOURCAT_TWEET: dict[str, Any] = BARE | {
    "conversation_id": "20", "created_at": "2022-10-12T08:00:00.000Z", "author_user": ANN,
    "attachments": {"media_keys": [
        {"media_key": "3_1", "type": "photo", "alt_text": "A ferry", "url": "https://a.example/1"},
        "3_2",
    ]},
}  # fmt: skip
FOURCAT_RETWEET = TWEET | {
    "author_user": BEN,
    "referenced_tweets": [{"type": "retweeted"} | FOURCAT_TWEET | {"id": "19"}],
}  # fmt: skip
FOURCAT_VIEW: dict[str, Any] = {
    "uri": "at://did:plc:abc/app.bsky.feed.post/3kxyz", "cid": "bafy", "py_type": "x",
    "author": {"did": "did:plc:abc", "handle": "ann.example.org", "display_name": "Ann",
               "created_at": "2023-01-01T00:00:00.000Z"},
    "record": {"py_type": "app.bsky.feed.post", "created_at": "2024-06-01T10:00:00.000Z",
               "langs": ["en"], "text": "Smoke on the ferry", "embed": None, "facets": None},
    "indexed_at": "2024-06-01T10:00:01.000Z", "threadgate": None, "labels": [],
    "4CAT_metadata": {"query": "ferry", "rank": 0},
}  # fmt: skip
FOURCAT_TWITTER = (
    (
        "id,thread_id,timestamp,unix_timestamp,link,subject,body,author,author_fullname,author_id,"
        "source,language_guess,possibly_sensitive,retweet_count,reply_count,like_count,quote_count,"
        "is_retweet,retweeted_user,is_quote_tweet,quoted_user,is_reply,replied_user,hashtags,urls,"
        "images,videos,mentions,long_lat,place_name"
    ),
    '20,20,2022-10-12 08:00:00,1665561600,https://twitter.com/ann/status/20,,"Smoke, on',
    (
        'the ferry",ann,Ann A,11,web,en,no,0,0,0,0,no,,no,,no,,fire,'
        '"https://news.example/a,b,https://b.example/fire?x=1,y",,,,,'
    ),
)
FOURCAT_BLUESKY = (
    (
        "collected_at,query,rank,id,thread_id,created_at,author,author_id,body,link,tags,like_count,"
        "quote_count,reply_count,repost_count,quoted_post,quoted_user,replied_to_post,replied_to_user,"
        "replies_allowed,mentions,links,images,labels,has_poll,languages,author_display_name,"
        "author_profile,author_avatar,author_created_at,timestamp"
    ),
    (
        "2024-06-02T00:00:00,ferry,0,at://did:plc:abc/app.bsky.feed.post/3kxyz,,"
        "2024-06-01T10:00:00+00:00,ann.example.org,did:plc:abc,sad,"
        "https://bsky.app/profile/ann.example.org/post/3kxyz,,1,0,0,0,,,,,True,,"
        "https://news.example/2026/ferry-fire,https://cdn.example/1.jpg,,False,en,Ann,,,,1717236000.0"
    ),
)
FOURCAT_REDDIT = (
    (
        "thread_id,id,timestamp,body,subject,author,author_flair,post_flair,domain,url,image_file,"
        "image_md5,subreddit,parent,score"
    ),
    "abc12,abc12,1700000000,,Ferry on fire,ann,,,news.example,https://news.example/ferry,,,news,,4",
    "abc13,abc13,1700000000,Smoke,Ferry,ann,,,self.news,https://www.reddit.com/r/a,,,news,,4",
    "abc12,c1,1700000100,I saw the smoke,,ben,,,,,,,news,t3_abc12,1",
    "abc14,abc14,1700000000,[removed],Gone,ann,,,self.news,https://www.reddit.com/r/b,,,news,,4",
)
FOURCAT_OLD = ("id,thread_id,timestamp,body,author", "20,20,2022-10-12 08:00:00,Smoke,ann")
