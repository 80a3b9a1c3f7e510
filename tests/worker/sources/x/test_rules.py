"""Rules of a file, and an X that is kept in step with it."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from encoder.errors import InputError
from tests.worker.sources.following import Followed, following, until
from tests.worker.sources.x.stream_side import TOKEN, FakeX, streaming, tweet_id
from worker.config.secret import Secret
from worker.sources.http import session
from worker.sources.source import BUSY
from worker.sources.x import rule_book
from worker.sources.x.rules import StreamRule, difference, rules_in
from worker.sources.x.source import XStream


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "rules.txt"
    file.write_text(text)
    return file


def source(side: FakeX, file: Path) -> XStream:
    return XStream(str(side.url), Secret(TOKEN), file)


@pytest.mark.parametrize(
    "text",
    [
        "ferry\tferries\n\n# what burns\n#fire lang:en\r\n",
        '{"value": "ferry", "tag": "ferries"}\n#fire lang:en\n',
        '[{"value": "ferry", "tag": "ferries"}, {"id": "7", "value": "#fire lang:en"}]',
    ],
)
def test_a_file_holds_a_rule_a_line_or_json(tmp_path: Path, text: str) -> None:
    found = [rule.meaning for rule in rules_in(written(tmp_path, text))]
    assert found == [("ferry", "ferries"), ("#fire lang:en", "")]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no rule"),
        ("# only this\n", "holds no rule"),
        ("\ttag\n", "line 1: an empty rule"),
        ("a" * 1025, "line 1: 1,025 characters"),
        ("\n".join(f"rule{n}" for n in range(1001)), "1,001 rules"),
        ("ferry\nfire\nferry\ttag", r"line 3: the same rule as .*line 1"),
        ('{"value": 1}', "line 1 is no rule"),
        ("[1]", "no list of rules"),
        ("ferry \u202e", "cannot be seen"),
    ],
)
def test_a_file_that_x_could_not_take_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        rules_in(written(tmp_path, text))


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give a file of rules"):
        rules_in(tmp_path / "none")


def test_a_changed_tag_is_another_rule() -> None:
    there = [StreamRule("a", "x", "1"), StreamRule("b", None, "2"), StreamRule("c", None, "3")]
    add, remove = difference(there, [StreamRule("a", "y"), StreamRule("b"), StreamRule("d")])
    assert [rule.meaning for rule in add] == [("a", "y"), ("d", "")]
    assert [rule.id for rule in remove] == ["1", "3"]


def test_x_has_the_rules_of_the_file_and_no_others(tmp_path: Path) -> None:
    wanted = [f"rule{n}\ttag{n}" for n in range(250)]
    file = written(tmp_path, "\n".join(["ferry\tboats", *wanted]))

    async def story() -> FakeX:
        async with streaming() as side:
            side.rules += [
                {"id": str(n), "value": f"rule{n}", "tag": "old"} for n in range(90, 200)
            ]
            async with following(source(side, file)) as seen:
                await side.opened.wait()
                await side.post(tweet_id(1))
                await until(lambda: seen.frames)
        return side

    side = asyncio.run(story())
    have = sorted(f"{rule['value']}\t{rule['tag']}" for rule in side.rules)
    assert have == sorted(["ferry\tboats", *wanted])
    assert all(len(body.get("add", [])) <= 100 for body in side.bodies)


def test_nothing_is_changed_for_a_file_that_x_refuses(tmp_path: Path) -> None:
    file = written(tmp_path, "fire\nhas:media\n")

    async def story() -> FakeX:
        async with streaming() as side:
            with pytest.raises(InputError, match="'has:media': needs a standalone operator"):
                await anext(_arrivals(side, file))
        return side

    side = asyncio.run(story())
    assert [rule["value"] for rule in side.rules] == ["ferry"]
    assert all("dry_run" in body["query"] for body in side.bodies)


async def _arrivals(side: FakeX, file: Path) -> Any:
    async with session(30) as client:
        async for found in source(side, file).arrivals(client, None):
            yield found


def test_a_full_book_makes_room_before_it_adds(tmp_path: Path) -> None:
    file = written(tmp_path, "\n".join(f"new{n}" for n in range(5)))

    async def story() -> FakeX:
        async with streaming() as side:
            side.cap = 5
            side.rules = [{"id": str(n), "value": f"old{n}"} for n in range(5)]
            async with following(source(side, file)):
                await side.opened.wait()
        return side

    assert sorted(rule["value"] for rule in asyncio.run(story()).rules) == [
        f"new{n}" for n in range(5)
    ]


def test_a_file_that_changes_while_a_stream_stands_is_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rule_book, "LOOK_S", 0.01)
    file = written(tmp_path, "ferry\tferries")

    async def story() -> FakeX:
        async with streaming() as side, following(source(side, file)):
            await side.opened.wait()
            file.write_text("has:links")  # is told, and changes nothing
            await until(lambda: any("add" in body for body in side.bodies))
            assert [rule["value"] for rule in side.rules] == ["ferry"]
            file.write_text("smoke\tfires")
            await until(lambda: [rule["value"] for rule in side.rules] == ["smoke"])
            assert len(side.streams) == 1
        return side

    asyncio.run(story())


def test_rules_that_x_dropped_are_given_again(tmp_path: Path) -> None:
    file = written(tmp_path, "ferry\tferries")

    async def story() -> Followed:
        async with streaming() as side, following(source(side, file)) as seen:
            await side.opened.wait()
            side.rules.clear()
            side.end()
            await asyncio.wait_for(side.opened.wait(), 30)
            assert json.dumps(side.rules[0]["value"]) == '"ferry"'
        return seen

    assert BUSY in {lost.reason for lost in asyncio.run(story()).lost}
