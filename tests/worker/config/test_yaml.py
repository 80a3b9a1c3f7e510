"""config.yaml as YAML."""

import itertools
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.config import KEYS, Config, load_config
from worker.config.load import load, read_file
from worker.config.text import rendered
from worker.errors import ConfigError


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config") / "config.yaml"


def refusal(file: Path, raw: bytes) -> str:
    file.write_bytes(raw)
    with pytest.raises(ConfigError) as raised:
        load_config(file, {})
    said = str(raised.value)
    assert said.startswith(str(file))
    assert len(said) < 1000
    return said


@pytest.mark.parametrize(
    "raw", [b"", b"\n# nothing\n", b"---\n", b"\xef\xbb\xbf", b"kafka:\n", b"{}"]
)
def test_an_empty_file_is_the_defaults(file: Path, raw: bytes) -> None:
    file.write_bytes(raw)
    assert load_config(file, {}) == Config()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"kafka\n", "line 1: expected sections such as kafka and topics"),
        (b"kafka: 5\n", "line 1: expected the keys of kafka"),
        (b"kafka: {}\nlog:\n  level: info\nkafka: {}\n", "line 4: kafka: given twice"),
        (b"log:\n  level: info\n  level: info\n", "line 3: log.level: given twice"),
        (b"log:\n\tlevel: info\n", "indent with spaces"),
        (b"log: {level: {a: b}}\n", "log.level: a mapping; write one value"),
        (b"log: {? [a] : b}\n", "a key is a word"),
        (b"--- {}\n--- {}\n", "not YAML"),
        (b"log: {level: !!python/name:os.system x}\n", "the tag"),
        (b"log: {level: *gone}\n", "not YAML"),
        (b"\xff\xfe\n", "not UTF-8 at byte 1"),
        (b"log: {level: \x00}\n", "not YAML: unacceptable character #x0000: special"),
        (b"a: " + b"[" * 2000, "nested too deep"),
        (b"#" * (2**20 + 1), "larger than 1048576 bytes"),
        (b"log: &a {level: *a}\n", "log.level: a mapping"),
    ],
    ids=itertools.count(),
)
def test_bad_yaml_is_refused(file: Path, raw: bytes, said: str) -> None:
    error = refusal(file, raw)
    assert said in error
    assert "\n" not in error


def test_yes_and_no_and_numbers_with_colons_are_texts(file: Path) -> None:
    file.write_text("topics: {posts: no, seeds: on, matches: yes, rejected: off}\n")
    topics = load_config(file, {}).topics
    assert (topics.posts, topics.seeds, topics.matches, topics.rejected) == (
        "no", "on", "yes", "off",
    )  # fmt: skip
    file.write_text("stream: {in_flight: 010, stall_s: 1e2}\nkafka: {group: 1:30}\n")
    config = load_config(file, {})
    assert (config.stream.in_flight, config.stream.stall_s, config.kafka.group) == (10, 100, "1:30")


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=200).map(lambda t: t.encode("utf-8", "replace")))
def test_random_bytes_are_read_or_refused(file: Path, raw: bytes) -> None:
    file.write_bytes(raw)
    try:
        read_file(file)
    except ConfigError as error:
        assert str(error).startswith(str(file))  # noqa: PT017 - either outcome is right


NAMES = [(section, key) for section, keys in KEYS.items() for key in keys]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(st.sampled_from(NAMES), LEAVES | st.lists(LEAVES, max_size=2), max_size=6))
def test_random_values_give_a_configuration_or_a_refusal(
    file: Path, values: dict[tuple[str, str], object]
) -> None:
    tree: dict[str, dict[str, object]] = {}
    for (section, key), value in values.items():
        tree.setdefault(section, {})[key] = value
    file.write_text(yaml.safe_dump(tree, allow_unicode=True), "utf-8")
    try:
        config = load_config(file, {})
    except ConfigError as error:
        assert str(error).startswith(str(file))  # noqa: PT017 - either outcome is right
        return
    for (section, key), value in values.items():
        found = getattr(getattr(config, section), key)
        if isinstance(found, str) and not isinstance(value, str):
            value = yaml.safe_dump(value).split("\n")[0]
        assert found == value or str(found) == str(file.parent / str(value)) or value == ""


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(NAMES), st.text(max_size=30))
def test_random_variables_give_a_configuration_or_a_refusal(
    key: tuple[str, str], text: str
) -> None:
    variable = f"NEWSIFT_{key[0]}__{key[1]}".upper()
    try:
        loaded = load(None, {variable: text})
    except ConfigError as error:
        assert str(error).startswith(variable)  # noqa: PT017 - either outcome is right
        return
    assert loaded.origins[".".join(key)] == variable


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from(
        ["a", "no", "1:2", "0x1", "-", "x y", "#", "null", "é: {", "5", "1e3", "a:", "'"]
    )
)
def test_the_rendered_configuration_can_be_read_again(file: Path, host: str) -> None:
    loaded = load(None, {"NEWSIFT_WEB__HOST": host, "NEWSIFT_MATCHING__THRESHOLD": "0.25",
                         "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL",
                         "NEWSIFT_KAFKA__CA_FILE": f"/{host}"})  # fmt: skip
    file.write_text(rendered(loaded), "utf-8")
    assert load_config(file, {}) == loaded.config
