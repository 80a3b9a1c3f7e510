from pathlib import Path

import msgspec
import pytest

from encoder.errors import InputError
from newsift.files.labels import label_writer, read_labels
from newsift.statistics.labels import parse_label
from worker.config.limits import DEFAULT_LIMITS

AT = "2026-01-31T12:00:00Z"


@pytest.mark.parametrize("name", ["l.csv", "l.tsv", "l.jsonl", "l.json"])
def test_a_text_with_a_nul_is_written_so_that_it_can_be_read(tmp_path: Path, name: str) -> None:
    post = {"id": "1", "platform": "plain", "text": "a \0 dam\r\nburst"}
    row = {"event": "e", "label": "on", "post": post, "by": "me", "at": AT, "drawn": "given"}
    with label_writer(tmp_path / name) as add:
        add(parse_label(msgspec.json.encode(row | {"probability": None}), DEFAULT_LIMITS))
    (label,) = read_labels(tmp_path / name, "me", AT, DEFAULT_LIMITS).values()
    assert label.post.text.replace("\ufffd", "\0") == "a \0 dam\r\nburst"


def test_a_rounded_id_is_refused(tmp_path: Path) -> None:
    """Labels of many posts would have one key."""
    file = tmp_path / "l.csv"
    file.write_text("event,label,post_id\nferry,on,7\nferry,on,1.58E+18\n")
    with pytest.raises(InputError, match=r"line 3: post_id: 1\.58E\+18 "):
        read_labels(file, "me", AT, DEFAULT_LIMITS)
