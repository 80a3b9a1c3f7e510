import json
import logging
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.config import LogConfig
from worker.errors import ConfigError
from worker.log import (
    AUDIT_LOGGER,
    MAX_PER_MINUTE,
    MINUTE_S,
    JsonLine,
    LogLimit,
    OneLine,
    configure_logging,
)
from worker.text import escape_invisible, escape_json, one_line, plural, printable


@pytest.fixture
def logs() -> Iterator[None]:
    root = logging.getLogger()
    handlers, root.handlers = root.handlers, []
    yield
    for handler in root.handlers:
        handler.close()
    root.handlers = handlers


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize(
    ("option", "root", "newsift"),
    [
        ("info", logging.INFO, logging.INFO),
        ("INFO", logging.INFO, logging.INFO),
        ("warn", logging.WARNING, logging.WARNING),
        ("Crit", logging.CRITICAL, logging.WARNING),
        (logging.DEBUG, logging.DEBUG, logging.DEBUG),
        (None, logging.WARNING, logging.WARNING),
    ],
)
def test_levels_of_the_command_line(option: int | str | None, root: int, newsift: int) -> None:
    configure_logging(LogConfig("warning"), option)
    assert logging.getLogger().level == root
    assert logging.getLogger("newsift").level == newsift


def record(message: str, at: float = 0.0, line: int = 1) -> logging.LogRecord:
    made = logging.LogRecord("newsift.x", logging.INFO, __file__, line, message, None, None)
    made.created = at
    return made


@pytest.mark.parametrize("debug", ["0", "1"])
def test_control_characters_are_escaped(debug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DEBUG", debug)
    line = OneLine("%(message)s").format(record("seed \x1b]0;x\x07\u202e\x9b\r refused"))
    assert line == "seed \\x1b]0;x\\x07\\u202e\\x9b  refused"


def test_one_line_of_code_cannot_flood_the_log() -> None:
    spare = LogLimit()
    assert sum(spare.filter(record("again", at=n / 1000)) for n in range(1000)) == MAX_PER_MINUTE
    assert spare.filter(record("another", at=1, line=2))
    later = record("again", at=MINUTE_S + 1)
    assert spare.filter(later)
    assert later.getMessage() == f"again ({1000 - MAX_PER_MINUTE} more were not logged)"
    assert spare.filter(record("again", at=2 * MINUTE_S + 2))


def test_audit_records_are_never_dropped() -> None:
    spare = LogLimit()
    made = [record("done") for _ in range(1000)]
    for each in made:
        each.name = AUDIT_LOGGER
    assert all(map(spare.filter, made))


@pytest.mark.parametrize("debug", ["0", "1"])
def test_a_json_record_is_one_line(debug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEWSIFT_DEBUG", debug)
    made = record("seed \u202e\x9b\n refused")
    made.exc_info = (ZeroDivisionError, ZeroDivisionError("x"), None)
    line = JsonLine().format(made)
    assert line.isascii()
    result = json.loads(line)
    assert result.pop("traceback", "0") == {"0": "0", "1": "ZeroDivisionError: x"}[debug]
    assert result == {
        "time": "1970-01-01T00:00:00.000Z", "level": "info", "logger": "newsift.x",
        "message": "seed \u202e\x9b\n refused",
    }  # fmt: skip


@pytest.mark.usefixtures("logs")
def test_the_log_file_must_be_writable(tmp_path: Path) -> None:
    configure_logging(LogConfig(format="json"), "info", str(tmp_path / "log"))
    logging.getLogger("newsift.x").info("here")
    assert json.loads((tmp_path / "log").read_text())["message"] == "here"
    with pytest.raises(ConfigError, match=r"--logfile: .*none/log cannot be written"):
        configure_logging(LogConfig(), "info", str(tmp_path / "none" / "log"))


STEERING = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
WILD = st.text(st.characters(), max_size=40) | st.text(
    st.sampled_from("a\x1b[\x9b\x07\r\n\t\u202e\u2066\u200f\u2028\ufeff\ud800\U000e0041\xa0é"),
    max_size=20,
)


def steers(text: str) -> set[str]:
    return {char for char in text if unicodedata.category(char) in STEERING}


@given(WILD)
def test_no_control_character_remains(text: str) -> None:
    for shown in (one_line(text), printable(text), escape_invisible(text)):
        assert not steers(shown)


@given(WILD)
def test_json_keeps_its_meaning_on_one_line(text: str) -> None:
    line = escape_json(json.dumps({text: [text]}, ensure_ascii=False))
    assert not steers(line)
    assert json.loads(line) == {text: [text]}


@given(st.text(st.characters(categories=["L", "N", "P", "S", "M", "Zs"])))
def test_visible_characters_stay(text: str) -> None:
    assert escape_invisible(text) == escape_json(text) == text


@pytest.mark.parametrize(
    ("count", "noun", "text"),
    [(0, "post", "0 posts"), (1, "post", "1 post"), (1_200, "match", "1,200 matches")],
)
def test_a_count_has_its_noun(count: int, noun: str, text: str) -> None:
    assert plural(count, noun) == text
