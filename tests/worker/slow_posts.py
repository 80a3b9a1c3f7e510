"""An independent reading of posts: dictionaries, one obvious step at a time, and no hurry."""

import json
from html.parser import HTMLParser
from typing import Any

Told = tuple[str, str, str | None]  # id, text, author


class Visible(HTMLParser):
    """The characters of an HTML text, with line ends where a browser breaks lines."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.parts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.parts.append("\n" if tag in ("p", "br", "li", "ul", "ol", "blockquote", "pre") else "")

    def handle_endtag(self, tag: str) -> None:
        self.parts.append("\n" if tag in ("p", "ul", "ol", "blockquote", "pre") else "")

    def handle_data(self, data: str) -> None:
        self.parts.append(data)


def visible(markup: str) -> str:
    """What a browser would show, its white space as it comes."""
    parser = Visible()
    parser.feed(markup)
    parser.close()
    return "".join(parser.parts)


def told(form: str, message: dict[str, Any]) -> Told:
    """The id, the text and the author of a message that holds a post."""
    readers = {"x": _x, "x1": _x1, "bluesky": _bluesky, "mastodon": _mastodon, "plain": _plain}
    return readers[form](message)


def _plain(message: dict[str, Any]) -> Told:
    return str(message["id"]), message["text"], message.get("author") or None


def _x(message: dict[str, Any]) -> Told:
    tweet = message.get("data") or message
    includes = message.get("includes") or {}
    text = _note(tweet)
    for reference in tweet.get("referenced_tweets") or []:
        if reference.get("type") == "retweeted":
            same = [t for t in includes.get("tweets") or [] if _same(t, reference.get("id"))]
            texts = [t for t in map(_note, [*same, reference]) if t is not None]
            if texts:
                text = texts[0]
                break
    author = tweet.get("author_id")
    users = [u for u in includes.get("users") or [] if _same(u, author) and u.get("username")]
    name = users[0]["username"] if users else author
    own = tweet.get("author")
    if own is not None:
        name = own if isinstance(own, str) else own.get("username") or name
    assert text is not None
    return str(tweet["id"]), text, str(name) if name not in (None, "") else None


def _same(holder: dict[str, Any], id: object) -> bool:
    return str(holder.get("id")) == str(id)


def _note(tweet: dict[str, Any]) -> str | None:
    note = (tweet.get("note_tweet") or {}).get("text")
    text: str | None = note if note is not None else tweet.get("text")
    return text


def _x1(message: dict[str, Any]) -> Told:
    texts = []
    for tweet in (message.get("retweeted_status") or {}, message):
        extended = tweet.get("extended_tweet") or {}
        texts += [extended.get("full_text"), tweet.get("full_text"), tweet.get("text")]
    text = next(t for t in texts if t is not None)
    author = (message.get("user") or {}).get("screen_name") or None
    return str(message.get("id_str") or message["id"]), text, author


def _bluesky(message: dict[str, Any]) -> Told:
    if "did" in message:
        did, commit = message["did"], message["commit"]
    else:
        did, commit = message["payload"]["did"], message["payload"]
    return (
        "at://" + did + "/app.bsky.feed.post/" + commit["rkey"],
        commit["record"]["text"],
        did,
    )


def _mastodon(message: dict[str, Any]) -> Told:
    status = message
    if message.get("event") is not None:
        payload = message["payload"]
        status = json.loads(payload) if isinstance(payload, str) else payload
    said = status.get("reblog") or status
    text = visible(said["content"])
    if said.get("spoiler_text"):
        text = said["spoiler_text"] + "\n" + text
    return str(status["id"]), text, (status.get("account") or {}).get("acct") or None
