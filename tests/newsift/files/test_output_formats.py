import csv
import gzip
import io
import json
import os
import re
import sqlite3
import threading
import tracemalloc
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from encoder.errors import InputError
from newsift.files import sqlite, writers
from newsift.files.rows import (
    FILE_SOURCE,
    TOPIC_SOURCE,
    Layout,
    OutputRecord,
    Per,
    csv_row,
    escape_formulas,
    parse_match_record,
    unescape_formulas,
)
from newsift.files.sqlite import database
from newsift.files.writers import (
    FORMATS,
    check_format,
    csv_table,
    format_by_ending,
    json_array,
    json_lines,
    parquet_table,
    record_writer,
    tsv_table,
)
from tests.newsift.cli.test_matches import record
from worker.errors import OutputError

DOCS = Path(__file__).parents[3] / "docs/files.md"
WILD = st.text(st.characters(exclude_categories=[]), max_size=8)  # lone surrogates and NUL too
TEXTS = [
    "The ferry burns", "=1+1", "\t@x", 'say "hi", twice\nor more\r', "NUL \0 inside", "", "日本 🔥",
    "\x1b[31m\u202e", "a" * 5000, "x;=2",
]  # fmt: skip
ATTACHMENTS = {
    "alt": ["A ferry", "=2+2"], "links": ["https://a.example/b", "https://a.example/c"],
    "card": {"url": "https://a.example/b", "title": "@Ferry", "description": "burns"},
}  # fmt: skip
OWN = {"likes": "12", "Text": "=as given", "na\0me \ud800": "\ud800 \0", "post_key": "7"}
FORMULA = tuple("=+-@＝＋－＠")
ENDINGS = [*FORMATS, ".csv.gz", ".tsv.zst", ".jsonl.gz", ".json.zst"]
STREAMS = [ending for ending in ENDINGS if ending != ".db"]
JOINED = """
SELECT * FROM matches JOIN posts USING (post_key)
JOIN seeds USING (seed_id, seed_version, event) ORDER BY matches.rowid
"""


def output_record(
    number: int, text: str, *seeds: str, columns: Mapping[str, str] | None = None, **post: Any
) -> OutputRecord:
    scores = {seed: 0.5 - i / 8 for i, seed in enumerate(seeds or ("ferry",))}
    whole = json.loads(record(str(number), text, **scores))
    whole["post"] |= {"id": f"p{number}", "platform": "plain", "author": "me"} | post
    if "links" in post:
        whole["matches"][0]["link"] = True
    whole["source"] |= {"topic": "a.csv", "offset": number - 1}
    raw = json.dumps(whole, ensure_ascii=False).encode()
    match = parse_match_record(raw)
    assert match is not None
    return OutputRecord(raw, match, match.matches, columns)


def wild_records(columns: Mapping[str, str] | None = None) -> list[OutputRecord]:
    """Every other post has a card, links and what its pictures show."""
    return [
        output_record(n, text, "ferry", "dam", columns=columns, **(ATTACHMENTS if n % 2 else {}))
        for n, text in enumerate(TEXTS, start=1)
    ]


def write(
    file: Path,
    *batches: list[OutputRecord],
    per: Per | None = None,
    own: Mapping[str, str] | None = None,
    failure: BaseException | None = None,
) -> None:
    """Write records to a file by its ending, some at a time."""
    form = format_by_ending(file)
    assert form is not None
    with record_writer(file, form, Layout(FILE_SOURCE, per, list(own or ()))) as add:
        for batch in batches:
            add(batch)
        if failure is not None:
            raise failure


def expected(each: OutputRecord, index: int = 0) -> dict[str, Any]:
    """The cells of a row, from the record's JSON alone."""
    whole = json.loads(each.value)
    match, post = whole["matches"][index], whole["post"]
    own = {name: part for name, part in match.items() if name != "why"}
    own |= {"why": "ferry[0.40] burns[0.10]", "source": "a.csv"}
    own |= {"line": whole["source"]["offset"] + 1, "platform": "plain", "post_id": post["id"]}
    own |= {name: post.get(name) for name in ("author", "created_at", "lang", "url", "text")}
    own |= {name: whole[name] for name in ("matched", "seed_set", "model", "processed_at")}
    card = post.get("card") or {}
    own |= {f"card_{name}": card.get(name) for name in ("url", "title", "description")}
    own |= {name: "\n".join(post[name]) if name in post else None for name in ("alt", "links")}
    return own | {"link": "true" if match.get("link") else None}


def query(file: Path, sql: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(file)) as db:
        db.row_factory = sqlite3.Row
        return [dict(row) for row in db.execute(sql)]


def read_rows(file: Path) -> list[dict[str, Any]]:
    """The rows of a complete file, read by other libraries; an error if it is not complete."""
    content = file.read_bytes()
    if file.suffix == ".gz":
        content = gzip.decompress(content)
    elif file.suffix == ".zst":
        content = zstandard.ZstdDecompressor().decompressobj().decompress(content)
    ending = file.suffixes[0]
    if ending == ".db":
        assert query(file, "PRAGMA integrity_check") == [{"integrity_check": "ok"}]
        return query(file, JOINED)
    if ending == ".parquet":
        rows: list[dict[str, Any]] = pyarrow.parquet.read_table(file).to_pylist()
        return rows
    if ending == ".json":
        return list(json.loads(content))
    if ending == ".jsonl":
        return [json.loads(line) for line in content.split(b"\n")[:-1]]
    delimiter = "\t" if ending == ".tsv" else ","
    return list(csv.DictReader(io.StringIO(content.decode(), newline=""), delimiter=delimiter))


@pytest.mark.parametrize("ending", FORMATS)
def test_a_row_a_match_holds_the_record(tmp_path: Path, ending: str) -> None:
    records, file = wild_records(), tmp_path / f"m{ending}"
    write(file, records[:3], [], records[3:], per=None if ending == ".db" else "match")
    rows = read_rows(file)
    for row, cells in zip(
        rows, [expected(each, index) for each in records for index in (0, 1)], strict=True
    ):
        if ending in (".csv", ".tsv"):
            text = {name: cell.replace("'", "") for name, cell in row.items()}
            cells["text"] = cells["text"].replace("\0", "\ufffd")
            cells["text"] = cells["text"].replace("\x1b", "").replace("\u202e", "")
            assert text == {name: "" if cell is None else str(cell) for name, cell in cells.items()}
        elif ending == ".db":
            cells["text"] = cells["text"].replace("\0", "\ufffd")
            assert {name: row[name] for name in cells} == cells
        else:
            assert row == cells


@pytest.mark.parametrize("ending", [".json", ".jsonl"])
@pytest.mark.parametrize("cuts", [(0, 0), (3, 4), (10, 10)])
def test_json_holds_the_record_itself(tmp_path: Path, ending: str, cuts: tuple[int, int]) -> None:
    records, (first, second), file = wild_records(), cuts, tmp_path / f"m{ending}"
    write(file, records[:first], records[first:second], records[second:])
    assert read_rows(file) == [json.loads(each.value) for each in records]
    assert b"\x1b" not in file.read_bytes()


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_no_cell_is_a_formula(tmp_path: Path, ending: str) -> None:
    own, file = OWN | {"=1+1": "+2+2"}, tmp_path / f"m{ending}"
    write(file, wild_records(own), own=own)
    cells = [cell for row in read_rows(file) for pair in row.items() for cell in pair]
    assert "'=1+1" in cells
    assert [cell for cell in cells if cell.strip("\0\t\r\n ").startswith(FORMULA)] == []


def test_a_row_a_post_holds_its_best_match_and_all_events(tmp_path: Path) -> None:
    each, file = output_record(3, "text", "dam", "ferry"), tmp_path / "m.csv"
    write(file, [each], per="post")
    (row,) = read_rows(file)
    assert row.pop("events") == "event of dam; event of ferry"
    assert row == {name: str(cell or "") for name, cell in expected(each).items()}


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".db"])
def test_the_user_s_columns_give_way_to_ours(tmp_path: Path, ending: str) -> None:
    own, file = OWN | {"score": "7"}, tmp_path / f"m{ending}"
    write(file, [output_record(1, "ours", columns=own)], own=own)
    (row,) = read_rows(file)
    assert (row["likes"], row["input_Text"].strip("'")) == ("12", "=as given")
    assert (row["text"], row["input_score"], float(row["score"])) == ("ours", "7", 0.5)
    assert row["name"].replace("\ufffd", "\0") == "? \0"
    assert row["input_post_key"] == "7"


def test_json_has_the_user_s_columns_under_a_key(tmp_path: Path) -> None:
    records, file = wild_records(OWN), tmp_path / "m.jsonl"
    write(file, records, own=OWN)
    for row, each in zip(read_rows(file), records, strict=True):
        own = row.pop("columns")
        assert row == json.loads(each.value)
        assert own == {"likes": "12", "Text": "=as given", "na\0me ?": "? \0", "post_key": "7"}


@pytest.mark.parametrize("ending", FORMATS)
def test_without_matches_a_file_is_complete(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"m{ending}"
    write(file, [])
    assert read_rows(file) == []
    if ending in (".csv", ".tsv"):
        assert file.read_text().startswith("match_id")


@pytest.mark.parametrize(("place", "times"), [(TOPIC_SOURCE, 1), (FILE_SOURCE, 3)])
def test_stores_a_redelivery_once(tmp_path: Path, place: tuple[str, ...], times: int) -> None:
    """An edited post is another one, and so is the match."""
    file, edited = tmp_path / "m.db", output_record(2, "the ferry burnt", id="p1")
    with record_writer(file, database, Layout(place)) as add:
        add([output_record(1, "the ferry burns")] * 3)
        add([edited, output_record(1, "the ferry burns", "dam")])
    posts = query(file, "SELECT post_id, text FROM posts ORDER BY post_key")
    assert [tuple(row.values()) for row in posts] == [
        *[("p1", "the ferry burns")] * times, ("p1", "the ferry burnt"),
        *[("p1", "the ferry burns")] * (times == 3),
    ]  # fmt: skip
    matches = query(file, "SELECT match_id, text FROM matches JOIN posts USING (post_key)")
    assert sorted(row["match_id"] for row in matches) == ["1-dam", *["1-ferry"] * times, "2-ferry"]
    assert all(("burnt" in row["text"]) == (row["match_id"] == "2-ferry") for row in matches)
    assert len(query(file, "SELECT DISTINCT post_digest FROM posts")) == 2


def test_the_queries_of_the_docs_give_what_they_say(tmp_path: Path) -> None:
    days = ["2026-01-01T10:00:00Z", "2026-01-01T23:59:59Z", "2026-01-02T00:00:00Z"]
    texts = ["in the lifeboats", "the coast guard came", "the guard of the coast"]
    records = [
        output_record(n, text, *("ferry", "dam")[: 1 + n % 2], created_at=day)
        for n, (day, text) in enumerate(zip(days, texts, strict=True), start=1)
    ]
    write(tmp_path / "m.db", records)
    daily, best, words = (
        query(tmp_path / "m.db", sql.replace("'ferry'", "'event of ferry'"))
        for sql in re.findall(r"```sql\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)
    )
    assert [tuple(row.values()) for row in daily] == [
        ("event of dam", "2026-01-01", 1), ("event of dam", "2026-01-02", 1),
        ("event of ferry", "2026-01-01", 2), ("event of ferry", "2026-01-02", 1),
    ]  # fmt: skip
    assert {row["text"] for row in best} == set(texts)
    assert {row["post_id"]: row["events"] for row in words} == {
        "p1": "event of ferry,event of dam", "p2": "event of ferry",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("m.csv", csv_table), ("M.CSV.GZ", csv_table), ("m.tsv.zst", tsv_table),
        ("m.jsonl", json_lines), ("m.json.gz", json_array), ("a.csv/m.json", json_array),
        ("m.parquet", parquet_table), ("a.b.db", database),
        *((name, None) for name in ("m", "m.txt", "m.gz", "csv", ".csv", "-", "m.csv.bz2")),
    ],
)  # fmt: skip
def test_the_ending_names_the_format(name: str, form: object) -> None:
    assert format_by_ending(Path(name)) is form


@pytest.mark.parametrize("ending", ENDINGS)
def test_an_error_leaves_the_old_file_and_ctrl_c_completes_it(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"m{ending}"
    file.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError):
        write(file, wild_records(), failure=ZeroDivisionError())
    assert file.read_bytes() == b"old"
    one, two, three = (output_record(n, "a") for n in range(3))
    with pytest.raises(KeyboardInterrupt):
        write(file, [one], [two, three], failure=KeyboardInterrupt())
    assert len(read_rows(file)) == 3
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


@pytest.mark.parametrize("ending", STREAMS)
def test_a_full_disk_is_one_line(tmp_path: Path, ending: str) -> None:
    link = tmp_path / f"m{ending}"
    link.symlink_to("/dev/full")
    with pytest.raises(OutputError, match=r"cannot be written \(No space left on device\)$"):
        write(link, *[wild_records()] * 20)


@pytest.mark.parametrize("ending", STREAMS)
def test_a_pipe_is_written_through_and_its_reader_may_leave(tmp_path: Path, ending: str) -> None:
    pipe, copy = tmp_path / f"m{ending}", tmp_path / f"copy{ending}"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: copy.write_bytes(pipe.read_bytes()), daemon=True)
    reader.start()
    write(pipe, [output_record(1, "a")], [output_record(2, "b")])
    reader.join()
    assert len(read_rows(copy)) == 2
    reader = threading.Thread(target=lambda: pipe.open("rb").close(), daemon=True)
    reader.start()
    with pytest.raises(BrokenPipeError):
        write(pipe, *([output_record(n, os.urandom(4000).hex())] for n in range(4000)))
    reader.join()
    assert pipe.is_fifo()


def test_a_full_disk_leaves_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite, "PRAGMAS", f"PRAGMA max_page_count = 30; {sqlite.PRAGMAS}")
    (tmp_path / "m.db").write_bytes(b"old")
    with pytest.raises(OutputError, match=r"m.db: cannot be written \(database or disk is full\)$"):
        write(tmp_path / "m.db", [output_record(n, f"{n} " * 500) for n in range(200)])
    assert (tmp_path / "m.db").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["m.db"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("m.db.gz", "cannot be compressed; leave .gz out"),
        ("m.xlsx", "is of no known format; end it with .csv .tsv .jsonl .json "),
        ("null.db", "a database must be a regular file; name one"),
    ],
)
def test_refuses_a_format_before_any_work(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "null.db").symlink_to("/dev/null")
    with pytest.raises(InputError, match=message):
        check_format("--out", tmp_path / name)


@pytest.mark.parametrize("ending", FORMATS)
def test_memory_is_bounded(tmp_path: Path, ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows take 10 MB, each with the text."""
    monkeypatch.setattr(writers, "MIN_GROUP_CHARS", 2**19)
    long = output_record(1, "x" * 10**5, *(f"seed {n}" for n in range(100)))
    write(tmp_path / f"m{ending}", [output_record(1, "a")])  # imports do not count
    tracemalloc.start()
    write(tmp_path / f"m{ending}", [long], per="match")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 5 * 10**6
    assert len(read_rows(tmp_path / f"m{ending}")) == 100


@given(st.dictionaries(WILD, WILD, max_size=6), WILD.filter(lambda text: text.isprintable()))
def test_no_column_and_no_text_breaks_any_format(
    tmp_path_factory: pytest.TempPathFactory, own: dict[str, str], text: str
) -> None:
    folder = tmp_path_factory.mktemp("wild")
    for ending in FORMATS:
        file = folder / f"m{ending}"
        write(file, [output_record(1, text, columns=own), output_record(2, text)], own=own)
        assert len(read_rows(file)) == 2


CELLS = st.text(st.sampled_from("a;=＝+@-\t\r\n \"',\0\u3000"), max_size=12)


def formulas(line: str, delimiter: str) -> list[str]:
    """The cells of a line that a spreadsheet would run, which passes over white space."""
    rows = csv.reader(io.StringIO(line, newline=""), delimiter=delimiter)
    return [cell for row in rows for cell in row if cell.strip().strip('"\0 ').startswith(FORMULA)]


@given(CELLS, CELLS)
def test_no_cell_of_any_text_is_a_formula(first: str, second: str) -> None:
    line = csv_row([f"x{first}", second])
    assert formulas(line, ",") == formulas(line, ";") == []


@pytest.mark.parametrize(
    "cell", ["1 + 1", "a-b", "https://x.y/?a=b", "a@b.c", "me; you", -0.5, None]
)
def test_keeps_what_is_no_formula(cell: str | float | None) -> None:
    assert escape_formulas(cell) == cell


@example("a;=1")
@example("=1;=2")
@example("'=1")
@example("' \t=1")
@given(CELLS)
def test_a_cell_is_read_as_it_was_written(cell: str) -> None:
    assert unescape_formulas(str(escape_formulas(cell))) == cell


@pytest.mark.parametrize("cell", ["'=x", "''=x", "' =1", "'\"+1", "'\tx", "a;'=1", "'quoted'"])
def test_an_author_s_apostrophes_stay(cell: str) -> None:
    assert escape_formulas(cell) == (cell if cell == "'quoted'" else cell.replace("'", "''", 1))
    assert unescape_formulas(str(escape_formulas(cell))) == cell


def test_no_character_steers_a_terminal_also_in_a_file() -> None:
    family = "\U0001f468\u200d\U0001f469"
    steering = "\x07\x1b]0;x\x07\x85\x9b\u202a\u202e\u2066\u2069"
    assert csv_row([f"a{steering}\nb\t{family}"]) == f'"a]0;x\nb\t{family}"\r\n'


def test_a_row_for_a_terminal_is_on_one_line() -> None:
    assert csv_row(["a\x1b[31m\nb\u202e", 1.0], for_terminal=True) == "a[31m b,1.0\r\n"


@pytest.mark.parametrize(
    ("cell", "kept"),
    [
        ("-73.9", True), ("+4", True), ("-1,5", True), ("-2e-3", True), ("-5+1", False),
        ("-", False), ("-1\n", False), ("-1.", False), ("=1", False), ("-١", False), (" -1", False),
    ],
)  # fmt: skip
def test_a_number_of_the_user_s_own_stays_a_number(cell: str, kept: bool) -> None:
    own = next(csv.reader(io.StringIO(csv_row([cell], user_cells=[cell]), newline="")))
    assert own[0] != cell
    assert (own[1] == cell) is kept
