import hashlib
import itertools
import json
import signal
from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.broker.clients import until
from tests.worker.command_processes import said_until_ended_by, started
from tests.worker.command_topics import POSTS, Kafka
from tests.worker.fake_command import Command

ODD = [
    b'{"id": "1",   "text": "spaces stay"}',
    b'{"id": "\xc3\xa9", "text": "\xc3\xa9"}',
    b"[1, 2",
    b"\xff\xfe",
    b'{"text": "no id"}',
    b'{"id": 12345678901234567890, "text": "a number"}',
    b'{"data": {"id": "9", "text": "of X"}}',
]


def post(name: object, **more: Any) -> bytes:
    return json.dumps({"id": str(name), "text": f"post {name}"} | more).encode()


def test_posts_arrive_byte_for_byte(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    file = tmp_path / "posts"
    file.write_bytes(b"\r\n\n  \n".join(ODD))
    done = newsift("replay", file)
    assert (done.code, done.out) == (1, "")
    keys = {record.value: record.key for record in kafka.records(POSTS)}
    by_text = f"sha256:{hashlib.sha256(b'no id').hexdigest()[:16]}"
    assert keys == {
        ODD[0]: b"1", ODD[1]: "é".encode(), b'{"text": "no id"}': by_text.encode(),
        ODD[5]: b"12345678901234567890", ODD[6]: b"9",
    }  # fmt: skip
    assert f"newsift: 5 posts sent to tweets on {kafka.address}" in done.err
    assert "not sent: bad_json 1, invalid_utf8 1" in done.err
    assert "2 of 7 rows could not be read, more than 5%" in done.err.splitlines()[-1]


def test_files_are_sent_in_order_after_skip(newsift: Command, kafka: Kafka, tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).write_bytes(b"\n\n".join(post(f"{name}{n}") for n in range(50)))
    done = newsift("replay", "b", "-", "a", "--skip", "7", stdin=post("of the pipe"))
    assert done.code == 0
    ids = [f"b{n}" for n in range(7, 50)] + ["of the pipe"] + [f"a{n}" for n in range(50)]
    order = {name.encode(): place for place, name in enumerate(ids)}
    by_partition = itertools.groupby(kafka.records(POSTS), lambda record: record.partition)
    places = [[order[record.key] for record in group] for _, group in by_partition]
    assert all(part == sorted(part) for part in places)
    assert sum(map(len, places)) == 94


def test_a_refused_record_says_where_to_resume(
    newsift: Command, kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEWSIFT_LIMITS__POST_BYTES", str(2**22))
    noise = b64encode(Random(1).randbytes(3 * 2**19)).decode()  # it cannot be compressed
    big = post("big", more=noise)
    (tmp_path / "a").write_bytes(b"\n".join([post(1), post(2), big, post(3)]))
    done = newsift("replay", "a", "--rate", "50")
    assert (done.code, done.out) == (1, "")
    assert "newsift: 2 posts sent" in done.err
    assert "--skip 2" in done.err
    assert "too large" in done.err.splitlines()[-1]
    assert {record.key for record in kafka.records(POSTS)} >= {b"1", b"2"}


def test_ctrl_c_reports_the_posts_sent(kafka: Kafka, tmp_path: Path) -> None:
    file = tmp_path / "many"
    file.write_bytes(b"\n".join(map(post, range(10_000))))
    with started("replay", file, "--rate", "100") as process:
        until(lambda: len(kafka.records(POSTS)) >= 20, 60)
        output = said_until_ended_by(signal.SIGINT, process)
    assert process.returncode == 130
    sent = len(kafka.records(POSTS))
    assert 20 <= sent < 10_000
    assert f"newsift: {sent:,} posts sent" in output
    assert f"--skip {sent}\n" in output
    assert output.endswith("newsift: interrupted\n")
    assert {int(record.key) for record in kafka.records(POSTS)} == set(range(sent))
