import json
import tracemalloc
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from newsift.files import documents
from newsift.files.documents import Item, items
from newsift.files.messages import FormatError
from tests.newsift.files.test_read import pieces

ODD = st.text(st.sampled_from('ab"\\[]{},:é\n \x00😀'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | ODD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ODD, inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(ODD, VALUES, max_size=3)
LAYOUTS: list[dict[str, Any]] = [{}, {"indent": 1}, {"separators": (",", ":")}]


def cut(content: bytes, size: int) -> list[Item]:
    return [item for batch in items(pieces(content, size)) for item in batch]


def decoded(result: list[Item]) -> list[Any]:
    return [json.loads(item.value) for item in result]


@settings(max_examples=100)
@given(st.lists(VALUES, max_size=6), st.sampled_from(LAYOUTS), st.booleans(), st.integers(1, 40))
def test_an_array_holds_the_items_of_json(
    values: list[Any], layout: dict[str, Any], ascii_only: bool, size: int
) -> None:
    content = json.dumps(values, ensure_ascii=ascii_only, **layout).encode()
    assert decoded(cut(content, size)) == values


@settings(max_examples=100)
@given(st.lists(st.lists(VALUES, max_size=3) | OBJECTS, max_size=4), st.integers(1, 30))
def test_documents_may_follow_each_other(values: list[Any], size: int) -> None:
    content = "\n".join(map(json.dumps, values)).encode()
    expected = [part for value in values
                for part in (value if isinstance(value, list) else [value])]  # fmt: skip
    assert decoded(cut(content, size)) == expected


@settings(max_examples=100)
@given(st.lists(OBJECTS, max_size=4), OBJECTS, OBJECTS, st.sampled_from(LAYOUTS),
       st.integers(1, 60))  # fmt: skip
def test_a_list_of_messages_comes_with_the_keys_before_it(
    messages: list[Any], before: dict[str, Any], after: dict[str, Any], layout: dict[str, Any],
    size: int,
) -> None:  # fmt: skip
    chat = {"id": 7} | before | {"messages": messages} | after
    result = cut(json.dumps(chat, **layout).encode(), size)
    assert decoded(result) == messages
    earlier = dict(takewhile(lambda pair: pair[0] != "messages", chat.items()))
    for item in result:
        assert json.loads(item.prefix + b"null}") == earlier | {"messages": None}


def test_refuses_json_that_is_cut_off() -> None:
    content = json.dumps([{"a": 'x\\" [é', "b": [1, {}]}, 2, "c"]).encode()
    for end in range(1, len(content)):
        with pytest.raises(FormatError, match="is cut off after item"):
            cut(content[:end], 5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[1}", "closes a list as an object"),
        (b"[1]]", "closes more than it opens"),
        (b"}", "closes more than it opens"),
        (b"[1] 2", "is followed by text that is not JSON"),
    ],
)
def test_refuses_what_is_no_json(content: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        cut(content, 2)


def test_memory_is_bounded_by_the_largest_item(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_LINE_BYTES", 2**16)

    def peak(count: int, item: bytes) -> int:
        parts = (b"[", *(item + b"," for _ in range(count)), b"0]")
        tracemalloc.start()
        assert sum(len(batch) for batch in items(iter(parts))) == count + 1
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    small = b'{"a": "' + b"x" * 2000 + b'"}'
    assert peak(2000, small) < 2000 * len(small) / 8
    assert peak(1, b'"' + b"x" * 2**22 + b'"') < 2**26


def test_a_long_item_is_cut_and_the_next_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_LINE_BYTES", 100)
    result = cut(json.dumps(["a", "b" * 5000, "c"]).encode(), 64)
    assert [len(item.value) for item in result][::2] == [3, 3]
    assert 100 < len(result[1].value) < 300


def test_an_object_without_a_list_of_posts_is_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "MAX_LINE_BYTES", 1000)
    with pytest.raises(FormatError, match="has no list of posts"):
        cut(json.dumps({"a": [1] * 5000}).encode(), 64)
