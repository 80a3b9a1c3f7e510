"""Any JSON object of a file becomes messages, whatever stands in it: no error of ours escapes."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.worker.files.formats import forms
from worker.config import DEFAULT_LIMITS
from worker.files.formats.columns import FileOptions
from worker.files.formats.objects import FORMATS, ObjectKeys, Objects
from worker.files.messages import FileMessage, Maker
from worker.posts.outcome import Reason, Rejected
from worker.posts.read import read_post

KNOWN = [forms.TWEET, forms.PAGE, forms.FLATTENED, forms.VIEW, forms.SEARCHED, forms.STATUS,
         *forms.OUTBOX["orderedItems"], forms.SUBMISSION, forms.COMMENT, *forms.LISTING,
         forms.MESSAGE, forms.SERVICE, {"id": "1", "text": "a"}, {"text": "a"}]  # fmt: skip
SMALL = st.recursive(
    st.none() | st.integers(-2, 2) | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(["", "a", "t3", "Listing", "at://a/b/c", "Create", "message", "1e999"]),
    lambda inner: st.lists(inner, max_size=2)
    | st.dictionaries(st.sampled_from(["id", "data", "children", "kind"]), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip
FIELDS = st.sampled_from(
    [*ObjectKeys.__struct_fields__, "id", "text", "includes", "replies", "title"]
)


def messages(value: bytes, **wanted: str) -> list[FileMessage]:
    objects = Objects(Maker("f", DEFAULT_LIMITS), FileOptions(**wanted))
    return list(objects.messages(value, 1))


@settings(max_examples=400)
@given(st.sampled_from(KNOWN), st.dictionaries(FIELDS, SMALL, max_size=4), st.sets(FIELDS),
       st.sampled_from(["auto", *FORMATS]))  # fmt: skip
def test_no_object_raises_and_every_value_reads_as_it_was_found(
    known: dict[str, Any], changes: dict[str, Any], gone: set[str], form: str
) -> None:
    whole = {name: part for name, part in (known | changes).items() if name not in gone}
    for message in messages(json.dumps(whole).encode(), format=form):
        assert isinstance(message.found, Rejected) or not message.value or (
            read_post(message.value) == message.found
        )  # fmt: skip


@settings(max_examples=200)
@given(st.dictionaries(FIELDS, SMALL, max_size=5), st.sampled_from(["text", "id", "a"]))
def test_no_object_raises_where_columns_are_named(whole: dict[str, Any], name: str) -> None:
    (message,) = messages(json.dumps(whole).encode(), text=name)
    if not isinstance(whole.get(name, 0), str | None):
        assert isinstance(message.found, Rejected)


@settings(max_examples=200)
@given(st.binary(max_size=60) | st.text(max_size=30).map(str.encode))
def test_bytes_that_are_no_object_are_bad_rows(wild: bytes) -> None:
    assert messages(b"[" + wild)
    (message,) = messages(wild + b"{")
    assert isinstance(message.found, Rejected)


@pytest.mark.parametrize("opened", [b'{"data":[', b'{"kind":"Listing","data":{"children":['])
def test_lists_without_end_and_nests_without_bottom_are_bad_rows(opened: bytes) -> None:
    (wide,) = messages(opened + b"{}," * 20_000 + b"{}]" + b"}" * opened.count(b"{"))
    assert isinstance(wide.found, Rejected)
    assert wide.found.reason is Reason.LIST_ITEMS
    (deep,) = messages(b'{"data":' * 5000 + b"1" + b"}" * 5000)
    assert isinstance(deep.found, Rejected)
    assert deep.found.reason is Reason.TOO_DEEP
