import gzip
import json
from pathlib import Path

import pytest
import zstandard

from encoder.errors import InputError
from newsift.files.messages import FileMessage
from newsift.files.posts import FORMATS, open_inputs
from newsift.files.tables import FileOptions
from worker.config.limits import DEFAULT_LIMITS
from worker.posts.outcome import Post, Reason, Rejected

ONE = b'{"id": "1", "text": "a"}\n'
TABLE = b"id,text\n1,a\n"


def read(file: Path, **options: str) -> list[FileMessage]:
    inputs = open_inputs([file], FileOptions(**options), DEFAULT_LIMITS)
    return [message for each in inputs for batch in each for message in batch]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", ONE), ("a.csv", ONE), ("a.txt", ONE), ("a", ONE), ("a.parquet", ONE),
        ("a.json", b"\n\n " + ONE), ("a.jsonl", b"[" + ONE + b"]"),
        ("a.csv", b"\xef\xbb\xbf" + ONE),
        ("a.json", json.dumps([{"id": 1, "text": "a"}], indent=2).encode()),
        ("a.csv", TABLE), ("a.json", TABLE), ("a.txt", TABLE), ("a", TABLE), ("a.tsv", TABLE),
        ("a.tsv", b"id\ttext\n1\ta\n"), ("a.csv", b"id;text\r\n1;a\r\n"),
        ("a.csv", "id,text\n1,a\n".encode("utf-16")),
        ("a.csv", "id,text\n1,a\n".encode("utf-16-be")),
        ("a.json", '{"id": "1", "text": "a"}'.encode("utf-16-le")),
    ],
)  # fmt: skip
def test_recognises_content(tmp_path: Path, name: str, content: bytes, pack: type[bytes]) -> None:
    file = tmp_path / name
    file.write_bytes(pack(content))
    (message,) = read(file)
    assert message.reading == Post(id="1", platform="plain", text="a")


@pytest.mark.parametrize("name", ["a.txt", "a.TXT", "a.b.txt.gz"])
def test_reads_plain_text_by_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"[a] post, with, commas\n\n{ another }\r\n")
    result = read(tmp_path / name)
    assert [(m.place, m.reading.text) for m in result if isinstance(m.reading, Post)] == [
        ("line 1", "[a] post, with, commas"), ("line 3", "{ another }"),
    ]  # fmt: skip


WIDE_WINDOW = b"\x28\xb5\x2f\xfd\0" + bytes([(35 - 10) << 3]) + b"\x05\0\0"  # RFC 8878: of 2^35
REFUSED = [
    ("a.log", b"\n\nsome words\nmore\n", "line 3: is not understood ('some words'); name"),
    ("a.jsonl", b'{"text": "cut\n{"tex', "is cut off"),
    ("a.jsonl", b'{"foo": 1}\n{"foo": 2}\n', "line 1: is not understood: value: has the keys"),
    ("a.json", b'[{"id": "1"}]', "item 1: is not understood: text: missing; name what holds"),
    ("a.json", b'[{"text": "a"}', "is cut off after item 0; fix it, or name the format with --f"),
    ("a.csv.zst", WIDE_WINDOW, "a window that takes more memory than there is"),
    ("a.csv", b"id,words,day\n1,a,b\n", "line 1: has no column of texts ('id', 'words', 'day')"),
    ("a.csv", b"id,words,day\n1,a,b\n", "; name it with --text-column"),
    ("a.csv", b"id,text\0\n", "line 1: holds NUL bytes and is no text"),
    ("a.csv", b"PK\x03\x04\0\0", "is a ZIP archive or a spreadsheet; unpack it, or save it as CSV"),
    ("a.tar", b"outbox.json" + b"0" * 246 + b"ustar", "is a tar archive"),
    ("a.csv.gz", gzip.compress(TABLE * 99)[:-9], "the gzip input is damaged or cut off after line"),
    ("a.csv", "id,text\n".encode("utf-16")[:-1], "the input is not UTF-16"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "content", "message"), REFUSED, ids=range(len(REFUSED)))
def test_refuses_unknown_content(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError) as caught:
        read(tmp_path / name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_broken_first_line_is_a_bad_row_where_the_next_is_an_object(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    for content in (b'{"id": "1", "te\n' + ONE, b'{"id": "1", "te\n' + ONE[:-1]):
        file.write_bytes(content)
        bad, good = read(file)
        assert (bad.place, isinstance(bad.reading, Rejected)) == ("line 1", True)
        assert (good.place, isinstance(good.reading, Post)) == ("line 2", True)
    file.write_bytes(b'{"statuses": [\n' + ONE + b"]}")
    assert isinstance(read(file)[0].reading, Post)


def test_columns_that_are_named_are_read_and_others_refused(tmp_path: Path) -> None:
    table, objects = tmp_path / "a.csv", tmp_path / "a.jsonl"
    table.write_bytes(b"key,words,day\nk,a,2024-01-01T00:00:00Z\n")
    objects.write_bytes(b'{"key": "k", "words": "a", "day": "2024-01-01T00:00:00Z"}\n')
    post = Post(id="k", platform="plain", text="a", created_at="2024-01-01T00:00:00Z")
    for file in (table, objects):
        assert read(file, text="words", id="key", time="day")[0].reading == post
        with pytest.raises(InputError, match="has no column 'wrods'"):
            read(file, text="wrods")
    objects.write_bytes(b'{"words": "a"}\n{"words": 3}\n{"word": "a"}\n')
    result = [message.reading for message in read(objects, text="words")]
    assert isinstance(result[0], Post)
    assert [isinstance(each, Rejected) and each.reason for each in result[1:]] == [
        Reason.NO_TEXT
    ] * 2


def test_a_post_without_an_id_is_named_by_its_text(tmp_path: Path) -> None:
    for content in (b'{"text": "Smoke"}', b'[{"text": "Smoke", "id": null}]', b"id,text\n,Smoke\n",
                    b"id,text\n1.58E+18,Smoke\n", b"text\nSmoke\n"):  # fmt: skip
        (tmp_path / "a.csv").write_bytes(content)
        (message,) = read(tmp_path / "a.csv")
        assert isinstance(message.reading, Post)
        assert message.reading.id == "sha256:29b52bfcccd01518"  # printf Smoke | sha256sum
        assert message.key == message.reading.id.encode()


@pytest.mark.parametrize("form", FORMATS)
def test_an_empty_file_has_no_rows(tmp_path: Path, form: str) -> None:
    for name, content in (("a.csv", b""), ("a.json", b" \n\n"), ("a.gz", gzip.compress(b""))):
        (tmp_path / name).write_bytes(content)
        if form != "parquet":
            assert read(tmp_path / name, format=form) == []
