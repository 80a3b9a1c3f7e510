"""Posts that are made to cost more than their bytes, by name and size."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

Shape = Callable[[int], bytes]


def post(post_id: str, text: str, **more: Any) -> bytes:
    return json.dumps({"id": post_id, "text": text, **more}).encode()


def ordinary(size: int) -> bytes:
    """A plain post that matches nothing: everyday words, and a name that nobody has heard."""
    text = "".join(f"the cat and a game of music{size + n}. " for n in range(size // 32 + 1))
    return post("ordinary", text[: size - 40])


def references(size: int) -> bytes:
    """A tweet whose references are looked up among the tweets that it includes."""
    refs, tweets = size // 56, size // 6 * 2 // 5 // 2
    message = {
        "data": {
            "id": "1", "text": "storm",
            "referenced_tweets": [{"type": "retweeted", "id": n} for n in range(refs // 3)],
        },
        "includes": {"tweets": [{"id": ""}] * tweets},
    }  # fmt: skip
    return json.dumps(message, separators=(",", ":")).encode()


def users(size: int) -> bytes:
    """A tweet with a crowd of users, none of them its author."""
    crowd = [{"id": n} for n in range(size // 16)]
    return json.dumps({"data": {"id": "1", "text": "storm", "author_id": "x"},
                       "includes": {"users": crowd}}).encode()  # fmt: skip


def chunks(size: int, unit: str, last: str) -> bytes:
    """A post of chunks as long as the encoder reads, no two sizes alike: units, and what ends."""
    chunk = unit * ((8_000 - size % 997) // len(unit)) + last
    return post("chunks", " ".join([chunk] * ((size - 40) // len(chunk))))


def number(size: int) -> bytes:
    """An id of as many digits."""
    return b'{"id": ' + b"9" * (size - 40) + b', "text": "storm"}'


def numbers(size: int) -> bytes:
    """A retweet beside tweets whose ids have thousands of digits."""
    tweets = b",".join([b'{"id": ' + b"9" * 4200 + b"}"] * (size // 4208))
    head = b'{"data": {"id": "1", "text": "storm", "referenced_tweets": [{"type": "retweeted"'
    return head + b', "id": "2"}]}, "includes": {"tweets": [' + tweets + b"]}}"


def keys(size: int) -> bytes:
    """An object of keys that no form has."""
    return json.dumps({f"k{n}": 0 for n in range(size // 13)}).encode()


def same_key(size: int) -> bytes:
    """One key given again and again."""
    return b'{"id": "1", ' + b'"text": "storm", ' * ((size - 40) // 17) + b'"lang": "en"}'


def toot(content: str) -> bytes:
    """A status of Mastodon."""
    account = {"acct": "a", "url": "https://a.example/@a"}
    return json.dumps(
        {"id": "1", "uri": "https://a.example/1", "content": content, "account": account,
         "created_at": "2026-01-01T00:00:00Z", "visibility": "public"}
    ).encode()  # fmt: skip


def nested(size: int) -> bytes:
    """Retweets within retweets."""
    deep = min(size // 40, 400)
    inner = b'{"id_str": "1", "full_text": "' + b"storm " * ((size - 50 * deep) // 6) + b'"}'
    return b'{"id_str": "1", "retweeted_status": ' * deep + inner + b"}" * deep


Hosts = Callable[[int], str]
HOSTS: dict[str, Hosts] = {
    "han": lambda n: "".join(chr(0x4E00 + (53 * i + 7 * n) % 20_000) for i in range(250)),
    "labels": lambda n: ".".join(f"é{n + i}" for i in range(60))[:250],
    "ligatures": lambda n: "\ufdfa" * 240 + str(n),
    "marks": lambda n: marks(120) + str(n),
    "capitals": lambda n: "ΣΑΣ-" * 60 + str(n),
    "wanted": lambda n: "WWW" + "\u00ad" * (n % 150) + "．ｂücher.example",
}


def links_to(size: int, host: Hosts) -> list[str]:
    """Addresses of so many bytes together, which no two posts share."""
    found, left, number = list[str](), size, 1000 * (size % 997)
    while left > 0:
        found.append(f"http://{host(number + len(found))}/{number + len(found)}")
        left -= len(found[-1].encode()) + 3
    return found[:-1]


def text_links(size: int, host: Hosts) -> bytes:
    addresses = " ".join(links_to(size - 60, host))
    return json.dumps({"id": "links", "text": addresses}, ensure_ascii=False).encode()


def skeet(**record: Any) -> bytes:
    """A post of Bluesky."""
    commit: dict[str, Any] = {
        "operation": "create",
        "collection": "app.bsky.feed.post",
        "rkey": "1",
    }
    commit["record"] = {"text": "storm", **record}
    event = {"did": "did:plc:a", "kind": "commit", "time_us": 1, "commit": commit}
    return json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()


def facets(size: int, host: Hosts) -> bytes:
    """Links that stand beside the text."""
    return skeet(facets=[{"features": [{"uri": link} for link in links_to(size * 8 // 9, host)]}])


def paths(size: int, part: str) -> bytes:
    """Links to a seed's own host, whose paths take work."""
    path = part * (1_800 // len(part))
    length = len(path.encode()) + 40
    addresses = [f"http://bücher.example/{path}{size}{n}" for n in range(size // length)]
    return json.dumps({"id": "paths", "text": " ".join(addresses)}, ensure_ascii=False).encode()


def pictures(size: int) -> bytes:
    """A picture again and again, whose description is blank."""
    times = min(size // 8, 9_900)
    message = {
        "data": {"id": "1", "text": "storm", "attachments": {"media_keys": ["a"] * times}},
        "includes": {"media": [{"media_key": "a", "alt_text": " " * (size - 4 * times)}]},
    }
    return json.dumps(message, separators=(",", ":")).encode()


def lists(size: int) -> list[list[list[str]]]:
    """Lists within lists, which stand where a text should."""
    return [[[]] * min(size // 3, 9_000)] * (size // 27_000 + 1)


SHAPES: dict[str, Shape] = {
    **{
        each.__name__: each for each in (references, users, number, numbers, keys, same_key, nested)
    },
    # what looks like the beginning of `http` at every letter, or like a host without end
    "letters_t": lambda size: chunks(size, "t", "/"),
    "letters_ht": lambda size: chunks(size, "ht", "/"),
    "dots": lambda size: chunks(size, "a.", "/"),
    "hashtag": lambda size: post("hashtag", "#" + "aB1_" * ((size - 40) // 4)),
    "mentions": lambda size: post("mention", "@a.b@c" * ((size - 40) // 6)),
    "entities": lambda size: post("entity", "&amp;amp;" * ((size - 40) // 9)),
    "letter": lambda size: post("letter", "x" * (size - 40)),
    "word": lambda size: post("word", "жщ" * ((size - 40) // 12)),
    "emoji": lambda size: post("emoji", "🌪" * ((size - 40) // 12)),
    # hosts that are no seed's, or spell one in another way
    **{f"text_{name}": partial(text_links, host=host) for name, host in HOSTS.items()},
    **{f"facets_{name}": partial(facets, host=host) for name, host in HOSTS.items()},
    "paths": partial(paths, part="é"),
    "path_steps": partial(paths, part="a/b/../"),
    "path_escapes": partial(paths, part="%61"),
    "pictures": pictures,
    "alt_lists": lambda size: post("lists", "storm", alt=lists(size * 3 // 4)),
    "title_lists": lambda size: skeet(embed={"external": {"title": lists(size)}}),
    # HTML that is never closed
    "tags": lambda size: toot("<p><a><span>" * ((size - 60) // 12)),
    "brackets": lambda size: toot("<" * (size - 60)),
    "comments": lambda size: toot("<!--" * ((size - 60) // 4)),
    "attributes": lambda size: toot("<a " + "b='" * ((size - 70) // 3)),
}


def marks(count: int, bases: int = 1) -> str:
    """A letter under a heap of marks of two kinds, which have to be sorted by their class."""
    return ("a" + "\u0301" * count + "\u0316" * count) * bases
