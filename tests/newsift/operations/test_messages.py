import asyncio
import sys

import pytest

from newsift.operations.messages import (
    MAX_CAPTURED_LINES,
    MAX_MESSAGE_CHARS,
    ProgressLine,
    capture,
    notify,
)


def test_captured_messages_are_not_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("newsift.operations.messages.SHOW_EVERY_S", -1)
    with capture() as output:
        notify("a\x07\x1b[2J\nb")
        ProgressLine().add(3, "posts")
    notify("b")
    assert output == ["a\\x07\\x1b[2J b"]
    assert capsys.readouterr().err == "\r\x1b[Knewsift: b\n"


def test_captures_threads_of_the_task_and_no_other_task(capsys: pytest.CaptureFixture[str]) -> None:
    async def captured(name: str) -> list[str]:
        with capture() as output:
            await asyncio.to_thread(notify, name)
            return output

    async def both() -> list[list[str]]:
        return list(await asyncio.gather(captured("one"), captured("two")))

    assert asyncio.run(both()) == [["one"], ["two"]]
    assert capsys.readouterr().err == ""


def test_a_capture_is_bounded() -> None:
    with capture() as output:
        for _ in range(MAX_CAPTURED_LINES + 50):
            notify("x" * (MAX_MESSAGE_CHARS + 50))
    assert {len(line) for line in output} == {MAX_MESSAGE_CHARS}
    assert len(output) == MAX_CAPTURED_LINES
