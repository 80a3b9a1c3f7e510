"""What an action says goes to whoever listens, bounded, and else to standard error."""

import asyncio
import sys

import pytest

from newsift.operations.messages import MOST_CHARS, MOST_LINES, ProgressLine, capture, notify


def test_without_a_listener_it_is_said_on_standard_error(
    capsys: pytest.CaptureFixture[str],
) -> None:
    notify("one\x1b[2J\ntwo")
    assert capsys.readouterr().err == "newsift: one\\x1b[2J two\n"


def test_on_a_terminal_it_takes_the_place_of_the_progress(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    notify("done")
    assert capsys.readouterr().err == "\r\x1b[Knewsift: done\n"


def test_a_listener_hears_it_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr("newsift.operations.messages.SHOW_EVERY_S", -1)
    with capture() as output:
        notify("a\x07")
        ProgressLine().add(3, "posts")
    notify("b")
    assert output == ["a\\x07"]
    assert capsys.readouterr().err == "\r\x1b[Knewsift: b\n"


def test_a_thread_of_the_listener_is_heard_and_another_task_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async def heard(name: str) -> list[str]:
        with capture() as output:
            await asyncio.to_thread(notify, name)
            return output

    async def both() -> list[list[str]]:
        return list(await asyncio.gather(heard("one"), heard("two")))

    assert asyncio.run(both()) == [["one"], ["two"]]
    assert capsys.readouterr().err == ""


def test_however_much_is_said_a_listener_keeps_little() -> None:
    with capture() as output:
        for _ in range(MOST_LINES + 50):
            notify("x" * (MOST_CHARS + 50))
    assert {len(line) for line in output} == {MOST_CHARS}
    assert len(output) == MOST_LINES
