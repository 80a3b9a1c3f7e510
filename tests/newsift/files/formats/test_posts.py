import gzip
import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from encoder.errors import InputError
from newsift.files import parquet
from newsift.files.messages import FileMessage
from newsift.files.posts import FORMATS, FileMessages, open_inputs
from newsift.files.tables import FileOptions
from worker.config.limits import DEFAULT_LIMITS
from worker.posts.checks import text_id
from worker.posts.outcome import Post, Reason, Rejected

ONE = b'{"id": "1", "text": "a"}\n'
TABLE = b"id,text\n1,a\n"


def read(file: Path, **options: str) -> list[FileMessage]:
    inputs = open_inputs([file], FileOptions(**options), DEFAULT_LIMITS)
    return [message for each in inputs for batch in each for message in batch]


def posts(messages: list[FileMessage]) -> list[Post]:
    return [message.reading for message in messages if isinstance(message.reading, Post)]


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
    assert [message.place for message in result] == ["line 1", "line 3"]
    assert [post.text for post in posts(result)] == ["[a] post, with, commas", "{ another }"]


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
    ("a.csv", b"1,the ferry burns,ann\n2,b,c\n", "line 1: has no header: its first line is '1'"),
    ("a.csv", b"A ferry burns tonight\nb\n", "line 1: has no header"),
    ("a.csv", b"id,text\0\n", "line 1: holds NUL bytes and is not text"),
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


@pytest.mark.parametrize(("content", "count"), [(b"", 0), (b"id,text\n", 0), (TABLE, 1)])
def test_a_file_without_rows_is_reported(tmp_path: Path, content: bytes, count: int) -> None:
    (tmp_path / "a.csv").write_bytes(content)
    reports: list[str] = []
    batches = FileMessages(tmp_path / "a.csv", FileOptions(), DEFAULT_LIMITS, reports.append)
    assert sum(map(len, batches)) == count
    assert any("is empty" in report for report in reports) == (not count)


@pytest.mark.parametrize(
    ("files", "names"),
    [
        (["w/posts.csv", "w/other/posts.csv"], ["w/posts.csv", "other/posts.csv"]),
        (["a/x/p.csv", "b/x/p.csv", "b/y/q.csv"], ["a/x/p.csv", "b/x/p.csv", "q.csv"]),
        (["p.csv", "a/p.csv"], ["p.csv", "a/p.csv"]), (["a/p.csv", "a/p.csv"], ["p.csv"] * 2),
    ],
)  # fmt: skip
def test_files_of_the_same_name_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: list[str], names: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in map(Path, files):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(TABLE)
    inputs = open_inputs(map(Path, files), FileOptions(), DEFAULT_LIMITS)
    assert [each.name for each in inputs] == names
    topics = [row.topic for each in inputs for batch in each.reopened() for row in batch]
    assert topics == names


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
        with pytest.raises(InputError, match=r"has no column 'wrods' [^;]*; fix --text-column$"):
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


TIME = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)


def write(file: Path, **columns: Any) -> Path:
    pq.write_table(pa.table(columns), file, row_group_size=5)
    return file


def test_rows_are_posts_with_their_columns(tmp_path: Path) -> None:
    file = write(tmp_path / "a", id=[1580000000000000001, None], text=["a", "b"],
                 created_at=[TIME, None], tags=[["x"], []], more=[None, 1.5])  # fmt: skip
    one, two = read(file)
    assert one.reading == Post(
        id="1580000000000000001", platform="plain", text="a",
        created_at="2024-01-02T03:04:05Z",
    )  # fmt: skip
    assert (one.place, two.place) == ("row 1", "row 2")
    assert one.columns == {
        "id": "1580000000000000001", "text": "a", "created_at": "2024-01-02T03:04:05+00:00",
        "tags": '["x"]', "more": "",
    }  # fmt: skip
    assert isinstance(two.reading, Post)
    assert two.reading.id.startswith("sha256:")


@pytest.mark.parametrize("cut", [5, 100, -1, -300])
def test_refuses_parquet_that_is_cut_off(tmp_path: Path, cut: int) -> None:
    file = write(tmp_path / "a.parquet", text=["a" * n for n in range(300)])
    file.write_bytes(file.read_bytes()[:cut])
    with pytest.raises(InputError, match="the Parquet is damaged or cut off"):
        read(file)


def test_without_pyarrow_names_the_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = write(tmp_path / "a.parquet", text=["a"])
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(InputError, match=r"install newsift with its extra: newsift\[parquet\]"):
        read(file)


@pytest.mark.parametrize(
    ("kind", "late"),
    [(pa.timestamp("us"), 2**60), (pa.timestamp("s", "UTC"), 2**50), (pa.date32(), 2**30)],
)
def test_a_time_that_python_cannot_hold_affects_only_itself(
    tmp_path: Path, kind: pa.DataType, late: int
) -> None:
    numbers = pa.array([0, late, None], f"int{kind.bit_width}")
    file = write(tmp_path / "a", text=["a dam", "b", "c"], date=numbers.cast(kind))
    result = read(file)
    assert [post.text for post in posts(result)] == ["a dam", "b", "c"]
    assert [each.timestamp for each in result] == [0, 0, 0]
    assert b'"created_at":"1970-01-01T00:00:00Z"' in result[0].value


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_text_that_is_not_utf8_affects_only_itself(tmp_path: Path, use_dictionary: bool) -> None:
    offsets, data = pa.py_buffer(b"\0\0\0\0\3\0\0\0\6\0\0\0"), pa.py_buffer(b"a\xffbcde")
    texts = pa.Array.from_buffers(pa.string(), 2, [None, offsets, data])
    pq.write_table(pa.table({"text": texts}), tmp_path / "a", use_dictionary=use_dictionary)
    assert [post.text for post in posts(read(tmp_path / "a"))] == ["a\ufffdb", "cde"]


def test_not_a_number_is_an_empty_cell(tmp_path: Path) -> None:
    file = write(tmp_path / "a", text=["a", "b"], id=[1.5, float("nan")])
    assert [each.key for each in read(file)] == [b"1.5", text_id("b").encode()]


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_a_text_that_expands_a_thousandfold_comes_in_small_batches(
    tmp_path: Path, use_dictionary: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MAX_BATCH_BYTES", 100_000)
    table = pa.table({"id": [*range(300)], "text": ["dam " * 2500] * 299 + ["small"]})
    pq.write_table(table, tmp_path / "a", use_dictionary=use_dictionary, compression="zstd")
    assert (tmp_path / "a").stat().st_size < 300 * 10_000 / 100
    (one,) = open_inputs([tmp_path / "a"], FileOptions(), DEFAULT_LIMITS)
    batches = list(one)
    assert max(sum(len(each.value) for each in batch) for batch in batches) < 120_000
    assert [each.place for batch in batches for each in batch] == [
        f"row {number}" for number in range(1, 301)
    ]


def test_a_row_that_is_too_long_is_bad_by_itself(tmp_path: Path) -> None:
    pq.write_table(pa.table({"text": ["a dam", "x" * (2**24 + 1), "a dam"]}), tmp_path / "a")
    result = [each.reading for each in read(tmp_path / "a")]
    assert [isinstance(each, Post) for each in result] == [True, False, True]
    assert "is longer than 16 MiB; split it" in str(result[1])


NAIVE = "2013-04-15 18:01:10"
READ_AS_UTC = "times without an offset in 'created_at', read as UTC: "


def read_and_hear(file: Path, **options: str) -> tuple[list[FileMessage], list[str]]:
    """The messages of a file, and what is said of it."""
    messages: list[str] = []
    (one,) = open_inputs([file], FileOptions(**options), DEFAULT_LIMITS, messages.append)
    messages.clear()
    return [each for batch in one for each in batch], messages


def times(rows: list[FileMessage]) -> list[str | None]:
    return [post.created_at for post in posts(rows)]


def written(folder: Path, form: str, *moments: str) -> Path:
    file = folder / f"posts.{form}"
    rows = [{"id": str(n), "text": f"post {n}", "created_at": at} for n, at in enumerate(moments)]
    if form == "parquet":
        pq.write_table(pa.Table.from_pylist(rows), file)
    elif form == "jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        file.write_text("\n".join([",".join(rows[0]), *(",".join(row.values()) for row in rows)]))
    return file


@pytest.mark.parametrize(
    "name",
    ["Posted at", "published_at", "Date posted", "created_time", "Post date", "Time (UTC)", "Datum",
     "Tweet created at", "Date (UTC)"],
)  # fmt: skip
def test_usual_names_of_times_are_found(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.csv").write_text(f"text,{name}\na,2013-04-15T18:01:10Z\n")
    assert times(read(tmp_path / "a.csv")) == ["2013-04-15T18:01:10Z"]


@pytest.mark.parametrize(("options", "is_said"), [({}, True), ({"time": ""}, False)])
def test_a_table_in_which_no_times_are_found_says_so(
    tmp_path: Path, options: dict[str, str], is_said: bool
) -> None:
    (tmp_path / "a.csv").write_text("text,wann\na,2013-04-15T18:01:10Z\n")
    said: list[str] = []
    open_inputs([tmp_path / "a.csv"], FileOptions(**options), DEFAULT_LIMITS, said.append)
    assert any("--time-column" in message for message in said) == is_said


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_times_without_an_offset_are_utc_and_counted(tmp_path: Path, form: str) -> None:
    file = written(tmp_path, form, NAIVE, "2013-04-15", "2013-04-15T18:01:10-05:00", "soon")
    rows, messages = read_and_hear(file)
    assert times(rows) == ["2013-04-15T18:01:10Z", "2013-04-15T00:00:00Z", "2013-04-15T23:01:10Z",
                           None]  # fmt: skip
    naive, unreadable = messages
    assert naive == f"posts.{form}: {READ_AS_UTC}2 (--timezone Europe/Berlin says otherwise)"
    assert unreadable.startswith(
        f"posts.{form}: times that cannot be read in 'created_at', left out: 1, such as 'soon' ("
    )
    moment = datetime.fromisoformat("2013-04-15T18:01:10Z").timestamp()
    assert rows[0].timestamp == moment * 1000


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_reads_times_in_the_given_time_zone(tmp_path: Path, form: str) -> None:
    moments = ("2026-01-31 12:00:00", "2026-07-31 12:00:00", "2026-07-31T12:00:00Z")
    rows, messages = read_and_hear(written(tmp_path, form, *moments), timezone="Europe/Berlin")
    expected = ["2026-01-31T11:00:00Z", "2026-07-31T10:00:00Z", "2026-07-31T12:00:00Z"]
    assert (times(rows), messages) == (expected, [])
    assert [json.loads(row.value)["created_at"] for row in rows] == expected  # what `replay` sends


def test_an_hour_that_occurs_twice_or_not_at_all(tmp_path: Path) -> None:
    twice, never = "2026-10-25 02:30:00", "2026-03-29 02:30:00"
    rows = read(written(tmp_path, "csv", twice, never), timezone="Europe/Berlin")
    assert times(rows) == ["2026-10-25T00:30:00Z", "2026-03-29T01:30:00Z"]
    shown = datetime.fromisoformat("2026-03-29T01:30:00Z").astimezone(ZoneInfo("Europe/Berlin"))
    assert shown.hour == 3


@pytest.mark.parametrize("name", ["Mars", "", "Europe", "../etc/passwd", "a\0b", "a" * 5000])
def test_refuses_what_is_no_time_zone(name: str) -> None:
    with pytest.raises(InputError, match=r"^--timezone .*: there is no such time zone; give one"):
        FileOptions(timezone=name)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("id", ["3.25292E+17", "3,25292E+17", "1e+18", "1" * 16 + ".0"])
def test_rounded_ids_are_replaced_by_digests_of_texts(tmp_path: Path, form: str, id: str) -> None:
    file = tmp_path / f"a.{form}"
    if form == "csv":
        file.write_text(f'id,text\n"{id}",one\n"{id}",two\n7e5,three\n')
    else:
        rows = [(id, "one"), (id, "two"), ("7e5", "three")]
        file.write_text("".join(json.dumps({"id": i, "text": t}) + "\n" for i, t in rows))
    result, messages = read_and_hear(file)
    expected = [text_id("one"), text_id("two"), "7e5"]
    assert [post.id for post in posts(result)] == expected
    assert [json.loads(each.value)["id"] for each in result] == expected
    assert [each.key for each in result] == [name.encode() for name in expected]
    (message,) = messages
    assert message.startswith(
        f"a.{form}: ids that a spreadsheet has rounded in 'id': 2, such as {id!r} ("
    )


ROUNDED_TO_15 = [f"{1790123456789 + n}230000" for n in range(60)]


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize(
    "ids", [["1790000000000000000"] * 60, ROUNDED_TO_15, ROUNDED_TO_15[:2], ["12", *ROUNDED_TO_15]]
)
def test_ids_that_were_rounded_to_plain_digits_are_named(
    tmp_path: Path, form: str, ids: list[str]
) -> None:
    file, texts = tmp_path / f"a.{form}", [f"text {n}" for n in range(len(ids))]
    if form == "csv":
        file.write_text("id,text" + "".join(f"\n{i},{t}" for i, t in zip(ids, texts, strict=True)))
    else:
        write(file, id=list(map(int, ids)), text=texts)
    result, messages = read_and_hear(file)
    assert [post.id for post in posts(result)] == [
        text_id(text) if len(id) > 15 else id for id, text in zip(ids, texts, strict=True)
    ]
    assert f"in 'id': {sum(len(id) > 15 for id in ids)}, such as" in messages[-1]


@pytest.mark.parametrize(
    "ids",
    [
        ["1790123456789230000"], [*ROUNDED_TO_15[:50], "1790123456789230001"],
        ["1790000000000000"] * 7, ["100000000000000"] * 60, ["1790123456789230000"] * 9,
        [*map(str, range(1790123456789230000 - 60, 1790123456789230001))],
    ],
)  # fmt: skip
def test_ids_that_end_in_zeros_by_chance_stay(tmp_path: Path, ids: list[str]) -> None:
    (tmp_path / "a.csv").write_text("id,text\n" + "".join(f"{id},a\n" for id in ids))
    assert [post.id for post in posts(read(tmp_path / "a.csv"))] == ids


def test_ids_of_a_table_that_were_read_as_floats_lose_their_zero(tmp_path: Path) -> None:
    """pandas writes a column of numbers with a gap in it so."""
    file, ids = tmp_path / "a.csv", ["123456789012345.0", "7.0", "1.5", "v1.0"]
    file.write_text("id,text\n" + "".join(f"{each},one\n" for each in ids))
    result, messages = read_and_hear(file)
    assert [post.id for post in posts(result)] == ["123456789012345", "7", "1.5", "v1.0"]
    (message,) = messages
    assert "in 'id': 2, such as '123456789012345.0'" in message
