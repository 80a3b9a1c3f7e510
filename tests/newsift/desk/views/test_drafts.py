"""Articles that are pasted, fetched or out of files: read, looked at, tried, published."""

import base64
import json
from collections.abc import Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from encoder import Encoder
from encoder.errors import InputError
from newsift.desk.views import seeds as drafts
from newsift.web.client import Bounds, fetch
from tests.newsift.cli.events.ferry import ARTICLES, add_posts, add_seeds, sample_posts
from tests.newsift.desk.client import Client
from tests.newsift.files.articles.pages import BANNER, STORIES, page
from tests.worker.fake import Command
from tests.worker.kafka_side import POSTS, SEEDS, Kafka
from tests.worker.loaded_once import enc, loaded_once
from tests.worker.web_side import web_server
from worker.seeds.record import digest

__all__ = ["enc", "loaded_once"]

pytestmark = pytest.mark.usefixtures("read_in_process")

TITLE, TEXT = ARTICLES["fire"]
GERMAN = "Auf der Fähre brach am Dienstag ein Feuer aus, und neun Menschen werden vermisst. " * 4


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Pages of this machine, as if they stood in the open web."""
    monkeypatch.setattr(drafts, "BOUNDS", Bounds(allow=lambda _: True))
    with web_server() as port:
        yield f"http://127.0.0.1:{port}"


def read_file(ask: Client, name: str, content: bytes) -> Any:
    return ask("/api/seeds/read", name=name, content=base64.b64encode(content).decode())


def given(result: dict[str, Any], mark: str = "", **edits: Any) -> dict[str, Any]:
    """What the page sends back of a draft."""
    remaining = {name: result[name] for name in ("id", "value", "source", "doubt")}
    return remaining | {"edits": edits, "mark": mark}


def publish(ask: Client, *those: dict[str, Any], **more: Any) -> Any:
    return ask("/api/seeds/publish", drafts=list(those), **more)


def published(kafka: Kafka) -> dict[bytes, bytes]:
    return {record.key: record.value for record in kafka.records(SEEDS)}


FILES = {
    "note.md": f"# {TITLE}\n\n{TEXT}\n".encode(),
    "plain.TXT": b"\xef\xbb\xbf" + TEXT.encode(),
    "saved.html": STORIES["article"].encode(),
    "latin.htm": STORIES["article"].encode("cp1252", "replace"),
    "one.json": json.dumps({"text": TEXT, "threshold": 1.0, "title": "T", "url": "u"}).encode(),
    "lines.jsonl": b'{"id": "l1", "text": "A \\u00e9"}\n\n{"id": "l2", "text": "B", "n": 2.50}\n',
    "export.json": json.dumps({"key": "kept", "value": '{"text": "A", "more": [1.0]}'}).encode(),
}


@pytest.mark.parametrize(("name", "event"), list(zip(FILES, cycle([None, "ferry"]), strict=False)))
def test_what_is_published_is_to_the_byte_what_seeds_add_would_publish(
    ask: Client, kafka: Kafka, newsift: Command, tmp_path: Path, name: str, event: str | None
) -> None:
    file = tmp_path / name
    file.write_bytes(FILES[name])
    options = ["--event", event, "--threshold", "0.25"] if event else []
    done = newsift("seeds", "add", file, "--no-preview", "--force", *options)
    assert done.code == 0, done.err
    theirs = published(kafka)
    edits = {"event": event, "threshold": 0.25} if event else {}
    marks = {row["id"]: row["mark"] for row in ask.until(
        "/api/seeds", lambda answer: answer["total"] == len(theirs))["rows"]}  # fmt: skip
    result = read_file(ask, f"../{name}", FILES[name])
    those = (given(each, marks[each["id"]], **edits) for each in result)
    text = publish(ask, *those, force=True)
    assert [row["published"] for row in text["seeds"]] == ["unchanged"] * len(theirs)
    assert [record.value for record in kafka.records(SEEDS)] == list(theirs.values()) * 2


def test_a_text_is_read_as_standard_input_is(ask: Client, kafka: Kafka, newsift: Command) -> None:
    text = f"# {TITLE}\r\n\n {TEXT} \n"
    (result,) = ask("/api/seeds/read", text=text)
    publish(ask, given(result, expires_at="2027-01-31T12:00:00Z"))
    ours = published(kafka)
    options = ["--no-preview", "--expires-at", "2027-01-31T12:00:00Z"]
    assert newsift("seeds", "add", "-", *options, stdin=text.encode()).code == 0
    assert published(kafka) == ours
    assert len(kafka.records(SEEDS)) == 2


def test_a_page_is_fetched_as_the_command_does(
    ask: Client, kafka: Kafka, newsift: Command, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (result,) = ask("/api/seeds/read", url=f" {web}/hop/2 ")
    record = json.loads(result["value"])
    assert (result["id"], record["title"]) == ("fire-on-the-ferry", "Fire on the ferry")
    assert "Sport" not in record["text"]
    publish(ask, given(result, event="ferry"))
    ours = published(kafka)
    anywhere = Bounds(allow=lambda _: True)
    monkeypatch.setattr("newsift.operations.seed_drafts.fetch", lambda url, _: fetch(url, anywhere))
    assert newsift("seeds", "add", "--url", f"{web}/hop/2", "--yes", "--event", "ferry").code == 0
    assert published(kafka) == ours


def test_a_page_of_the_own_network_is_not_asked_for(ask: Client) -> None:
    with pytest.raises(InputError, match="which is no address of the open Internet") as refused:
        ask("/api/seeds/read", url="http://169.254.169.254/latest")
    assert "--intranet" not in str(refused.value)


def test_a_hostile_page_is_refused_in_a_line(
    ask: Client, web: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drafts, "BOUNDS", Bounds(size=2**20, allow=lambda _: True))
    with pytest.raises(InputError, match="is larger than 1 MiB") as refused:
        ask("/api/seeds/read", url=f"{web}/bomb")
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.json", b"[" * 100_000, "a.json: is no JSON; mend it"),
        ("a.json", b"[1]", "a.json: is no JSON object"),
        ("a.json", b'{"id": 7, "text": "x"}', "has no 'id' that is a string"),
        ("a.json", b'{"text": 7}', "a.json: text: a number, expected a string"),
        ("a.jsonl", b'{"text": "x", "id": "a"}\n' * 101, "101 seeds, 100 are read here at a time"),
        ("a.txt", b"\xff\xfe\x00", "a.txt: "),
        ("a.txt", b"%PDF-1.4", "a.txt: is a PDF"),
        ("a.txt", b" \n", "a.txt: text: missing or empty"),
        ("a.txt", b"a" * (2**19 + 1), "a.txt: limits.article_bytes: "),
        ("a.html", b"<html><body></body></html>", "a.html: holds no text that can be read"),
        ("", b"text", "give a text, an address, or a file"),
        ("-", b"text", "give a text, an address, or a file"),
        ("a.txt", b"", "give a text, an address, or a file"),
    ],
)
def test_files_are_refused_as_the_command_refuses_them(
    ask: Client, kafka: Kafka, name: str, content: bytes, text: str
) -> None:
    with pytest.raises(InputError, match=text.replace("(", r"\(")):
        read_file(ask, name, content)
    assert kafka.records(SEEDS) == []


def test_what_looks_like_no_article_is_published_only_when_that_is_meant(
    ask: Client, kafka: Kafka
) -> None:
    (result,) = read_file(ask, "notice.html", page(BANNER).encode())
    assert result["doubt"] == "a cookie or consent notice"
    (checked,) = ask("/api/seeds/check", drafts=[given(result)])
    assert checked["doubt"] == result["doubt"]
    with pytest.raises(InputError, match=r"notice\.html: looks like a cookie or consent notice"):
        publish(ask, given(result))
    assert kafka.records(SEEDS) == []
    mended = given(result, text=f"{TEXT} {TEXT}", title=TITLE)
    (checked,) = ask("/api/seeds/check", drafts=[mended])
    assert (checked["doubt"], checked["notes"]) == (None, [])
    publish(ask, given(result), force=True)
    assert published(kafka).keys() == {b"notice"}


def test_a_draft_is_looked_at_before_it_is_published(
    ask: Client, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    ask.until("/api/seeds", lambda answer: answer["total"] == 2)
    (result,) = read_file(ask, "fire.md", f"# {TITLE}\n\n{TEXT}".encode())
    (row,) = ask("/api/seeds/check", drafts=[given(result, event="ferry")])
    assert (row["published"], row["version"]) == ("replaced", digest([TITLE, TEXT])[:12])
    cut = float(enc.thresholds(enc.articles([(TITLE, TEXT)]), 0.001)[0])
    assert row["auto_threshold"] == pytest.approx(cut)
    assert {word.casefold() for word, _ in row["words"][:6]} & {"astrid", "vane", "ferry"}
    assert (row["doubt"], row["notes"]) == (None, [])
    short = given(result, text="Two words.")
    (row,) = ask("/api/seeds/check", drafts=[short])
    assert row["doubt"] == "2 words, and an article has 40"
    with pytest.raises(InputError, match=r"fire\.md: has 2 words, and an article has 40 "):
        publish(ask, short)
    wordless = given(result, text="🔥", title="")
    bad = given(result, threshold=7.0), given(result | {"id": "x" * 257}), wordless
    text = [ask("/api/seeds/check", drafts=[each])[0]["refused"] for each in bad]
    assert text[0] == "fire.md: threshold: 7 is not above 0 and at most 1"
    assert "key: 257 bytes, 256 are allowed" in text[1]
    assert text[2] == "text: holds no word that the model reads"
    with pytest.raises(InputError, match=r"fire\.md: text: holds no word that the model reads"):
        publish(ask, wordless)
    (foreign,) = ask("/api/seeds/read", text=GERMAN)
    (row,) = ask("/api/seeds/check", drafts=[given(foreign)])
    assert row["notes"] == [drafts.FOREIGN]
    assert len(kafka.records(SEEDS)) == 2


def test_it_says_what_would_have_matched_and_publishes_nothing(
    ask: Client, kafka: Kafka, enc: Encoder
) -> None:
    add_posts(kafka)
    title, text = ARTICLES["rescue"]
    rescue = json.dumps({"title": title, "text": text, "event": "ferry"}).encode()
    kafka.send(SEEDS, rescue, b"rescue")
    ask.until("/api/seeds", lambda answer: answer["total"] == 1)
    (result,) = ask("/api/seeds/read", text=f"# {TITLE}\n\n{TEXT}")
    answer = ask("/api/seeds/try", drafts=[given(result, event="ferry")])
    texts = [str(post["text"]) for post in sample_posts()]
    rows = enc.articles([ARTICLES["fire"], ARTICLES["rescue"]])
    over = enc.posts(texts).similarity(rows) >= enc.thresholds(rows, 0.001)
    earlier = answer["matches"]["ferry"]
    assert (earlier["matched"], earlier["gained"]) == (
        over.any(axis=1).sum(),
        (over[:, 0] & ~over[:, 1]).sum(),
    )
    assert (earlier["whole"], len(earlier["best"])) == (True, 5)
    assert earlier["best"][0]["text"] in texts
    (event,) = answer["events"]
    assert event == {"event": "ferry", "seeds": 2, "others": 1, "few": True, "may_learn": True}
    assert published(kafka).keys() == {b"rescue"}


def test_without_posts_that_is_said(ask: Client, kafka: Kafka) -> None:
    kafka.send(POSTS, b'{"id": "old", "text": "x"}', at=1_000_000)
    (result,) = ask("/api/seeds/read", text=TEXT)
    assert ask("/api/seeds/try", drafts=[given(result)])["matches"][result["id"]]["posts"] == 0


def test_who_would_replace_what_somebody_has_published_meanwhile_is_told(
    ask: Client, kafka: Kafka
) -> None:
    (result,) = ask("/api/seeds/read", text=f"# {TITLE}\n\n{TEXT}")
    (row,) = ask("/api/seeds/check", by="ada", drafts=[given(result)])
    assert (row["published"], row["mark"]) == ("new", "")
    publish(ask, given(result, event="hers"), by="ben")
    with pytest.raises(InputError, match="has been changed by somebody since you looked at it"):
        publish(ask, given(result, row["mark"], event="mine"), by="ada")
    checked = [given(result, event="mine")]
    (row,) = ask.until(
        "/api/seeds/check", lambda rows: rows[0]["published"] == "replaced", drafts=checked
    )
    text = publish(ask, given(result, row["mark"], event="mine"), by="ada")
    assert text["seeds"][0]["published"] == "replaced"


def test_two_of_one_id_and_far_too_many_are_refused(ask: Client, kafka: Kafka) -> None:
    (result,) = ask("/api/seeds/read", text=TEXT)
    with pytest.raises(InputError, match="are both seed"):
        publish(ask, given(result), given(result))
    with pytest.raises(InputError, match="drafts: 101, give 1 to 100"):
        publish(ask, *(given(result | {"id": str(n)}) for n in range(101)))
    with pytest.raises(InputError, match="drafts: 0"):
        publish(ask)
    assert kafka.records(SEEDS) == []


@pytest.mark.parametrize(
    "value", ["", "null", "[1]", '{"a": 1, "a": 2}', "{" * 10_000, '{"text": "\\ud800"}']
)
def test_a_draft_that_nobody_read_is_refused(ask: Client, kafka: Kafka, value: str) -> None:
    created = {"id": "a", "value": value, "source": "me"}
    with pytest.raises(InputError):
        publish(ask, created)
    assert kafka.records(SEEDS) == []
