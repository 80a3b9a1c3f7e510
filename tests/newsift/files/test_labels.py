from pathlib import Path

import msgspec
import pytest

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
