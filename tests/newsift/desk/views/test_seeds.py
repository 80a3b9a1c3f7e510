import base64
import json
from pathlib import Path
from typing import Any

import pytest

from encoder import Encoder
from encoder.errors import InputError
from newsift.desk.period import FilePass, FilePeriod
from newsift.desk.views import seeds as drafts
from newsift.web.client import RequestLimits
from tests.broker.clients import producer
from tests.newsift.cli.events.ferry_event import ARTICLES, add_posts, add_seeds, sample_posts
from tests.newsift.desk.desk_client import Client
from tests.newsift.files.articles.saved_pages import BANNER, page
from tests.worker.command_topics import POSTS, SEEDS, Kafka
from tests.worker.fake_command import Command
from tests.worker.fake_web_server import PAGES, Site, serving
from tests.worker.shared_encoder import enc, loaded_once
from worker.kafka.reading import connected
from worker.seeds.record import json_digest

__all__ = ["enc", "loaded_once"]

HOSTILE = "x</script><img src=x onerror=alert(1)>\u202e\x1b[31m|'\""


def latest(kafka: Kafka) -> dict[bytes, bytes | None]:
    return {record.key: record.value for record in kafka.records(SEEDS)}


def listed_seed(ask: Client, name: str, **text: Any) -> Any:
    result = ask.until(
        "/api/seeds",
        lambda answer: any(
            row["id"] == name and text.items() <= row.items() for row in answer["rows"]
        ),
    )
    return next(row for row in result["rows"] if row["id"] == name)


def test_the_page_lists_the_seeds_as_the_command_does(
    ask: Client, kafka: Kafka, newsift: Command
) -> None:
    add_seeds(kafka)
    kafka.send(SEEDS, b'{"text": "A ferry burns.", "threshold": 0.5, "paused": true}', b"own")
    kafka.send(SEEDS, b'{"text": "Old news.", "expires_at": "2020-01-01T00:00:00Z"}', b"old")
    kafka.send(SEEDS, b'{"title": "no text"}', b"bare")
    kafka.send(SEEDS, "{'text': '🔥🔥'}".replace("'", '"').encode(), b"wordless")
    kafka.send(SEEDS, b"\xff", b"\xfe")
    answer = ask.until("/api/seeds", lambda answer: answer["total"] == 7)
    data = {
        row["id"]: row
        for row in map(json.loads, newsift("seeds", "list", "--json").out.splitlines())
    }
    assert {row["id"] for row in answer["rows"]} == data.keys()
    for row in answer["rows"]:
        theirs = data[row["id"]]
        names = ("state", "event", "threshold", "expires_at", "seed_version", "reason")
        assert [row.get(name) for name in names] == [theirs.get(name) for name in names]
        in_force = row.get("threshold_in_force")
        assert in_force == pytest.approx(theirs.get("auto_threshold", in_force))
    assert [row["id"] for row in answer["refused"]] == ["\\xfe", "bare", "wordless"]
    assert all(row["reason"] for row in answer["refused"])
    assert answer["states"] == {"live": 2, "refused": 3, "paused": 1, "expired": 1}
    assert answer["events"] == ["ferry", "old", "own"]
    assert [row["id"] for row in ask("/api/seeds", search="FERRY astrid")["rows"]] == ["fire"]
    few = ask("/api/seeds", most=2)
    assert (few["matching"], len(few["rows"])) == (7, 2)


def test_a_seed_is_shown_whole_with_its_heaviest_words(
    ask: Client, kafka: Kafka, enc: Encoder
) -> None:
    add_seeds(kafka)
    listed_seed(ask, "fire")
    row = ask("/api/seed", id="fire")
    title, text = ARTICLES["fire"]
    assert (row["title"], row["text"], row["event"]) == (title, text, "ferry")
    heaviest = enc.articles([(title, text)]).lexical.weights.max()
    assert max(weight for _, weight in row["words"]) == pytest.approx(heaviest, abs=1e-4)
    with pytest.raises(InputError, match="there is none of this id"):
        ask("/api/seed", id="nobody")


def test_a_change_is_that_of_the_command(ask: Client, kafka: Kafka, newsift: Command) -> None:
    for name in (b"mine", b"theirs"):
        kafka.send(SEEDS, b'{"text": "A ferry burns.", "other": [1], "title": "Fire"}', name)
    ends = "2027-01-31T12:00:00Z"
    steps: list[tuple[dict[str, Any], list[str]]] = [
        ({"threshold": 0.25, "event": "f", "expires_at": ends},
         ["--threshold", "0.25", "--event", "f", "--expires-at", ends]),
        ({"threshold": None, "expires_at": None, "paused": True},
         ["--threshold", "auto", "--expires-at", "never", "--paused"]),
    ]  # fmt: skip
    before: dict[str, Any] = {}
    for values, options in steps:
        etag = listed_seed(ask, "mine", **before)["etag"]
        ask("/api/seeds/set", id="mine", etag=etag, **values)
        assert newsift("seeds", "set", "theirs", *options).code == 0
        result = latest(kafka)
        assert result[b"mine"] == result[b"theirs"]
        before = {"threshold": 0.25}
    etag = listed_seed(ask, "mine", state="paused")["etag"]
    for wrong in ({"threshold": 2.0}, {"event": "é" * 121}, {"expires_at": "soon"}):
        with pytest.raises(InputError):
            ask("/api/seeds/set", id="mine", etag=etag, **wrong)
    ask("/api/seeds/set", id="mine", etag=etag, paused=False)
    assert listed_seed(ask, "mine", state="live")["event"] == "f"


def test_the_second_of_two_changes_of_a_seed_is_refused(ask: Client, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"a")
    seen_by_both = listed_seed(ask, "a")["etag"]
    ask("/api/seeds/set", by="ada", id="a", etag=seen_by_both, event="ferry")
    for act, more in (("set", {"event": "fire"}), ("remove", {})):
        with pytest.raises(InputError, match="'a': has been changed by somebody since you looked"):
            ask(f"/api/seeds/{act}", by="ben", id="a", etag=seen_by_both, **more)
    assert json.loads(latest(kafka)[b"a"] or b"")["event"] == "ferry"


@pytest.mark.parametrize(
    ("key", "value"),
    [(b"a", b'{"text": "A ferry burns.", "n": 1.0}'), (b"\xfe/../", b"\xff no record")],
)
def test_a_removed_seed_can_be_restored(
    ask: Client, kafka: Kafka, key: bytes, value: bytes
) -> None:
    kafka.send(SEEDS, value, key)
    name = key.decode("utf-8", "backslashreplace")
    data = ask("/api/seeds/remove", by="ada", id=name, etag=listed_seed(ask, name)["etag"])
    assert latest(kafka)[key] is None
    answer = ask.until("/api/seeds", lambda answer: not answer["rows"])
    assert answer["removed"] == data == {"number": data["number"], "id": name, "by": "ada"}
    ask("/api/seeds/undo", by="ben", number=data["number"])
    assert latest(kafka)[key] == value
    assert ask("/api/seeds")["removed"] is None
    with pytest.raises(InputError, match="cannot be undone any more"):
        ask("/api/seeds/undo", by="ben", number=data["number"])


def test_a_removal_is_not_undone_over_a_newer_seed(ask: Client, kafka: Kafka) -> None:
    kafka.send(SEEDS, b'{"text": "A ferry burns."}', b"a")
    answer = ask("/api/seeds/remove", id="a", etag=listed_seed(ask, "a")["etag"])
    kafka.send(SEEDS, b'{"text": "Another ferry."}', b"a")
    with pytest.raises(InputError, match="'a': exists again; it is left as it is"):
        ask("/api/seeds/undo", number=answer["number"])
    assert latest(kafka)[b"a"] == b'{"text": "Another ferry."}'


def test_hostile_records_are_listed_within_bounds(ask: Client, kafka: Kafka) -> None:
    value = {"text": HOSTILE * 100, "title": HOSTILE * 20, "event": HOSTILE, "url": "javascript:1"}
    kafka.send(SEEDS, json.dumps(value).encode(), HOSTILE.encode())
    kafka.send(SEEDS, b'{"text": "' + b"a " * 2**18 + b'"}', b"large")
    kafka.send(SEEDS, b"[" * 100_000, b"deep")
    kafka.send(SEEDS, b'{"text": "no key"}', None)
    answer = ask.until("/api/seeds", lambda answer: answer["total"] == 4)
    assert len(json.dumps(answer)) < 10_000
    row = next(row for row in answer["rows"] if row["id"] == HOSTILE)
    assert (row["event"], len(row["title"])) == (HOSTILE, 200)
    for name in ("deep", "large", HOSTILE):
        assert ask("/api/seed", id=name)["id"] == name


pytestmark = pytest.mark.usefixtures("read_in_process")

TITLE, TEXT = ARTICLES["fire"]
GERMAN = "Auf der Fähre brach am Dienstag ein Feuer aus, und neun Menschen werden vermisst. " * 4


def read_file(ask: Client, name: str, content: bytes) -> Any:
    return ask("/api/seeds/read", name=name, content=base64.b64encode(content).decode())


def given(result: dict[str, Any], etag: str = "", **edits: Any) -> dict[str, Any]:
    remaining = {name: result[name] for name in ("id", "value", "source", "doubt")}
    return remaining | {"edits": edits, "etag": etag}


def publish(ask: Client, *those: dict[str, Any], **more: Any) -> Any:
    return ask("/api/seeds/publish", drafts=list(those), **more)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("note.md", f"# {TITLE}\n\n{TEXT}\n".encode()),
        ("lines.jsonl", b'{"id": "l1", "text": "A \\u00e9"}\n\n{"id": "l2", "text": "B"}\n'),
    ],
)
def test_a_draft_is_published_as_seeds_add_publishes_it(
    ask: Client, kafka: Kafka, newsift: Command, tmp_path: Path, name: str, content: bytes
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    options = ["--event", "ferry", "--threshold", "0.25"]
    done = newsift("seeds", "add", file, "--no-preview", "--force", *options)
    assert done.code == 0, done.err
    theirs = latest(kafka)
    edits = {"event": "ferry", "threshold": 0.25}
    etags = {row["id"]: row["etag"] for row in ask.until(
        "/api/seeds", lambda answer: answer["total"] == len(theirs))["rows"]}  # fmt: skip
    result = read_file(ask, f"../{name}", content)
    those = (given(each, etags[each["id"]], **edits) for each in result)
    text = publish(ask, *those, force=True)
    assert [row["published"] for row in text["seeds"]] == ["unchanged"] * len(theirs)
    assert [record.value for record in kafka.records(SEEDS)] == list(theirs.values()) * 2


def test_a_page_is_fetched(ask: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drafts, "PUBLIC_LIMITS", RequestLimits(allow=lambda *_: True))
    with serving(Site(PAGES)) as site:
        (result,) = ask("/api/seeds/read", url=f" {site.url}/hop/2 ")
    record = json.loads(result["value"])
    assert (result["id"], record["title"]) == ("fire-on-the-ferry", "Fire on the ferry")


def test_a_page_of_the_own_network_is_refused(ask: Client) -> None:
    with pytest.raises(InputError, match="is not a public address"):
        ask("/api/seeds/read", url="http://169.254.169.254/latest")


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.json", b"[" * 100_000, "a.json: is not JSON"),
        ("a.jsonl", b'{"text": "x", "id": "a"}\n' * 101, "101 seeds, 100 are read here at a time"),
        ("a.txt", b"a" * (2**19 + 1), "a.txt: limits.article_bytes: "),
        ("-", b"text", "give a text, an address, or a file"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(
    ask: Client, name: str, content: bytes, text: str
) -> None:
    with pytest.raises(InputError, match=text):
        read_file(ask, name, content)


def test_a_doubtful_article_is_published_only_with_force(ask: Client, kafka: Kafka) -> None:
    (result,) = read_file(ask, "notice.html", page(BANNER).encode())
    assert result["doubt"] == "a cookie or consent notice"
    with pytest.raises(InputError, match=r"notice\.html: looks like a cookie or consent notice"):
        publish(ask, given(result))
    assert kafka.records(SEEDS) == []
    mended = given(result, text=f"{TEXT} {TEXT}", title=TITLE)
    (checked,) = ask("/api/seeds/check", drafts=[mended])
    assert (checked["doubt"], checked["notes"]) == (None, [])
    publish(ask, given(result), force=True)
    assert latest(kafka).keys() == {b"notice"}


def test_a_draft_is_checked_before_it_is_published(ask: Client, kafka: Kafka, enc: Encoder) -> None:
    add_seeds(kafka)
    ask.until("/api/seeds", lambda answer: answer["total"] == 2)
    (result,) = read_file(ask, "fire.md", f"# {TITLE}\n\n{TEXT}".encode())
    (row,) = ask("/api/seeds/check", drafts=[given(result, event="ferry")])
    assert (row["published"], row["version"]) == ("replaced", json_digest([TITLE, TEXT])[:12])
    cut = float(enc.thresholds(enc.articles([(TITLE, TEXT)]), 0.001)[0])
    assert row["auto_threshold"] == pytest.approx(cut)
    assert {word.casefold() for word, _ in row["words"][:6]} & {"astrid", "vane", "ferry"}
    assert (row["doubt"], row["notes"], row["loading"]) == (None, [], False)
    (row,) = ask("/api/seeds/check", drafts=[given(result, text="Two words.")])
    assert row["doubt"] == "2 words, and an article has 40"
    bad = [given(result, threshold=7.0), given(result, text="🔥", title="")]
    reasons = [ask("/api/seeds/check", drafts=[each])[0]["refused"] for each in bad]
    assert "threshold" in reasons[0]
    assert "no word that the model reads" in reasons[1]
    with pytest.raises(InputError, match="no word that the model reads"):
        publish(ask, bad[1])
    (foreign,) = ask("/api/seeds/read", text=GERMAN)
    (row,) = ask("/api/seeds/check", drafts=[given(foreign)])
    assert "another language" in row["doubt"]
    assert len(kafka.records(SEEDS)) == 2


def test_a_trial_shows_earlier_matches_and_publishes_nothing(
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
    assert latest(kafka).keys() == {b"rescue"}


def test_an_article_is_tried_on_all_posts_of_a_file(ask: Client, kafka: Kafka) -> None:
    add_posts(kafka)  # of an earlier pass
    with connected(ask.desk.config) as cluster:
        begin = cluster.ends(POSTS)
    posts = sample_posts()
    with producer(kafka.address) as client:
        for post in posts:  # of the year 2013
            client.send(POSTS, json.dumps(post).encode(), timestamp_ms=1_366_016_400_000)
    period = FilePeriod()
    period.latest = FilePass(version=1, begin={POSTS: begin}, done=True)
    ask.desk.period = period
    (result,) = ask("/api/seeds/read", text=f"# {TITLE}\n\n{TEXT}")
    answer = ask("/api/seeds/try", drafts=[given(result, event="ferry")])["matches"]["ferry"]
    assert (answer["hours"], answer["there"], answer["whole"]) == (None, len(posts), True)
    assert answer["matched"] > 0


def test_a_draft_does_not_replace_a_seed_that_changed_meanwhile(ask: Client, kafka: Kafka) -> None:
    (result,) = ask("/api/seeds/read", text=f"# {TITLE}\n\n{TEXT}")
    (row,) = ask("/api/seeds/check", by="ada", drafts=[given(result)])
    assert (row["published"], row["etag"]) == ("new", "")
    publish(ask, given(result, event="hers"), by="ben")
    with pytest.raises(InputError, match="has been changed by somebody since you looked at it"):
        publish(ask, given(result, row["etag"], event="mine"), by="ada")
    checked = [given(result, event="mine")]
    (row,) = ask.until(
        "/api/seeds/check", lambda rows: rows[0]["published"] == "replaced", drafts=checked
    )
    text = publish(ask, given(result, row["etag"], event="mine"), by="ada")
    assert text["seeds"][0]["published"] == "replaced"


def test_invalid_drafts_are_refused(ask: Client, kafka: Kafka) -> None:
    (result,) = ask("/api/seeds/read", text=TEXT)
    with pytest.raises(InputError, match="are both seed"):
        publish(ask, given(result), given(result))
    with pytest.raises(InputError, match="drafts: 101, give 1 to 100"):
        publish(ask, *(given(result | {"id": str(n)}) for n in range(101)))
    for value in ("", '{"a": 1, "a": 2}', "{" * 10_000, '{"text": "\\ud800"}'):
        with pytest.raises(InputError):
            publish(ask, {"id": "a", "value": value, "source": "me"})
    assert kafka.records(SEEDS) == []
