"""Lines of strangers: however their bytes fall, and whatever they are, nothing stops on them."""

import json
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from worker.errors import AccessError
from worker.sources.source import LostError
from worker.sources.x.said import delivered_id, posted_at, turned_away

VALUES: st.SearchStrategy[Any] = st.one_of(
    st.none(), st.text(max_size=30), st.integers(), st.just([{}]), st.just({})
)
KEYS = st.sampled_from(["data", "errors", "title", "type", "disconnect_type", "connection_issue"])
LINES = st.one_of(
    st.binary(max_size=60),
    st.dictionaries(KEYS, VALUES).map(lambda said: json.dumps(said).encode()),
    VALUES.map(lambda id: json.dumps({"data": {"id": id}}).encode()),
    st.just(b'{"errors":' + b"[" * 100_000),
)


@given(LINES)
def test_no_line_is_too_odd(line: bytes) -> None:
    with suppress(LostError):
        id = delivered_id(line, "x.example")
        assert id is None or (len(id) < 20 and id.isdigit())


@given(st.sampled_from([400, 403, 420, 429, 500, 503]), LINES)
def test_no_answer_is_too_odd(status: int, body: bytes) -> None:
    found = turned_away(status, {"x-rate-limit-reset": "soon"}, body, "x.example")
    assert isinstance(found, AccessError | LostError)
    assert str(found).isprintable()


def test_an_id_holds_its_time() -> None:
    """The example of X's manual, with its `created_at`."""
    made = posted_at("1212092628029698048")
    assert made is not None
    assert int(made) == datetime(2019, 12, 31, 19, 26, 16, tzinfo=UTC).timestamp()
    assert posted_at("20") is None
