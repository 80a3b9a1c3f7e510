import copy
import itertools
import json
import logging
import os
import pickle
from dataclasses import asdict
from math import inf
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from worker.config import KEYS, Config, KafkaConfig, TopicsConfig
from worker.config.load import load, load_config
from worker.config.secret import Secret
from worker.config.text import render_config, to_values
from worker.errors import ConfigError
from worker.kafka.settings import tls_context

SHIPPED = Path(__file__).parents[3] / "config.yaml"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("config") / "config.yaml"


def refusal(file: Path | None, text: str | bytes = "", **env: str) -> str:
    if file is not None:
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigError) as raised:
        load_config(file, env)
    assert raised.value.exit_code == 2
    message = str(raised.value)
    assert file is None or message.startswith(str(file))
    assert "\n" not in message
    assert len(message) < 1000
    return message


def test_the_shipped_file_is_the_defaults() -> None:
    given = yaml.safe_load(SHIPPED.read_text("utf-8"))
    given["posts"]["compare"] = ",".join(given["posts"]["compare"])
    assert given == {
        section: {name: key.default for name, key in keys.items()} for section, keys in KEYS.items()
    }
    assert load_config(SHIPPED, {}) == Config() == load_config(None, {})


def test_a_file_changes_what_it_names(file: Path) -> None:
    file.write_text("matching:\n  threshold: 1\n  why: false\ntopics:\nlog: {level: debug}\n")
    config = load_config(file, {})
    assert (config.matching.threshold, config.matching.why) == (1.0, False)
    assert isinstance(config.matching.threshold, float)
    assert config.log.level == "debug"
    assert config.topics == TopicsConfig()


def test_a_variable_overrides_the_file(file: Path) -> None:
    file.write_text("topics: {posts: a, partitions: 7}\nmatching: {threshold: 0.5}\n")
    env = {
        "NEWSIFT_TOPICS__POSTS": "no", "NEWSIFT_MATCHING__WHY": "false", "NEWSIFT_KAFKA": "b:1",
        "NEWSIFT_MATCHING__THRESHOLD": "", "NEWSIFT_WEB__PORT": "80", "PATH": "x",
        "NEWSIFT_STREAM__STALL_S": "1e2", "NEWSIFT_KAFKA__CA_FILE": "~/c",
        "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL", "NEWSIFT_DEBUG": "1",
    }  # fmt: skip
    config = load_config(file, env)
    assert (config.topics.posts, config.topics.partitions) == ("no", 7)
    assert (config.matching.why, config.matching.threshold) == (False, None)
    assert (config.kafka.bootstrap_servers, config.web.port) == ("b:1", 80)
    assert (config.stream.stall_s, config.kafka.ca_file) == (100.0, Path.home() / "c")


def test_the_file_is_that_of_the_option_else_the_variable_else_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load(None, {}).file is None
    Path("config.yaml").write_text("log: {level: error}\n")
    Path("other.yaml").write_text("log: {level: debug}\n")
    assert load(None, {"NEWSIFT_CONFIG": ""}).config.log.level == "error"
    assert load(None, {"NEWSIFT_CONFIG": "other.yaml"}).config.log.level == "debug"
    assert load(Path("config.yaml"), {"NEWSIFT_CONFIG": "other.yaml"}).config.log.level == "error"
    assert "gone.yaml: cannot be read" in refusal(None, NEWSIFT_CONFIG="gone.yaml")
    assert "cannot be read" in refusal(None, NEWSIFT_CONFIG=".")


def test_paths_are_relative_to_the_file(file: Path) -> None:
    file.write_text("kafka: {security_protocol: SSL, ca_file: ca.pem}\n")
    assert load_config(file, {}).kafka.ca_file == file.parent / "ca.pem"
    assert load_config(file, {"NEWSIFT_KAFKA__CA_FILE": "x"}).kafka.ca_file == Path("x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kafak: {}", ": kafak: unknown section; did you mean kafka?"),
        ("threshhold: 0.2", "line 1: threshhold: unknown key; did you mean matching.threshold?"),
        ("zzz: 1", "line 1: zzz: unknown key; keys stand in sections: kafka, "),
        ("kafka: {groop: x}", "line 1: kafka.groop: unknown key; did you mean kafka.group?"),
        ("\nmatching:\n  device: cpu", "line 3: matching.device: unknown key; did you mean model."),
        ("matching: {background_rate: 0}", "0 is refused; give a number above 0 and below 1"),
        ("matching: {threshold: 1.1}", "give a number above 0 and at most 1"),
        ("matching: {threshold: on}", "'on' is refused; give a number above 0"),
        (
            "matching: {why: no}",
            "matching.why: 'no' is refused; give true or false, or leave it out for true",
        ),
        ("matching: {max_matches: 2.0}", "'2.0' is refused; give a whole number"),
        ("stream: {stall_s: 1" + "0" * 400 + "}", "stream.stall_s: "),
        ('web: {host: "a\\nb"}', "is refused; give a text on one line"),
        ("topics: {posts: a/b}", "topics.posts: 'a/b' is refused"),
        ("topics: {seeds: tweets}", "topics.seeds: 'tweets' is topics.posts too"),
        ("kafka: {bootstrap_servers: localhost}", "give host:port"),
        ("kafka: {bootstrap_servers: 'a:1,,b:2'}", "with commas between"),
        ("kafka: {bootstrap_servers: [a:1, b:2]}", "a list; give host:port, or several"),
        ("posts: {langs: [en, [de]]}", "posts.langs: a list"),
        ("kafka: {group: newsift}", "give a group other than 'newsift', which Faust takes"),
        ("kafka: {security_protocol: sasl}", "give one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ("kafka: {username: me}", "kafka.username: set, and security_protocol PLAINTEXT has no"),
        ("kafka: {security_protocol: SSL, key_file: k}", "key_file: set, and cert_file is not"),
        ("kafka: {ca_file: ~nobody-here/x}", "'~nobody-here/x' is refused; give the path"),
        ("kafka: {ca_file: ca.pem}", "ca_file: set, and security_protocol PLAINTEXT has no TLS"),
        ('"a\\nb": {}', r": a\nb: unknown section"),
        ("? " + "x" * 5000 + "\n: {}", "x: unknown section"),
        ("log: {level: loud}", "give one of debug, info, warning, error, critical"),
    ],
    ids=itertools.count(),
)
def test_bad_files_are_refused(file: Path, text: str, message: str) -> None:
    assert message in refusal(file, text)


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("NEWSIFT_KAFAK__GROUP", "x", "kafak: unknown section; did you mean kafka?"),
        ("NEWSIFT_KAFKA__group", "x", "use NEWSIFT_KAFKA__GROUP"),
        ("NEWSIFT_STREAM__IN_FLIGHT", "3.0", "'3.0' is refused; give a whole number from 1"),
        ("NEWSIFT_STREAM__STALL_S", "nan", "nan is refused; give a number"),
        ("NEWSIFT_KAFKA", "nowhere", "kafka.bootstrap_servers: 'nowhere' is refused"),
    ],
)
def test_bad_variables_are_refused(variable: str, value: str, message: str) -> None:
    result = refusal(None, **{variable: value})
    assert result.startswith(variable)
    assert message in result


def test_two_variables_may_not_name_different_brokers() -> None:
    env = {"NEWSIFT_KAFKA": "a:1", "NEWSIFT_KAFKA__BOOTSTRAP_SERVERS": "b:1"}
    assert refusal(None, **env).endswith("'a:1' and 'b:1'; unset one")
    env["NEWSIFT_KAFKA"] = "b:1"
    assert load_config(None, env).kafka.bootstrap_servers == "b:1"


def test_a_section_made_in_python_is_checked_too() -> None:
    with pytest.raises(ConfigError, match=r"kafka\.bootstrap_servers: 'x' is refused; give host"):
        KafkaConfig(bootstrap_servers="x")
    with pytest.raises(ConfigError, match=r"kafka\.password: null, and security_protocol"):
        KafkaConfig(security_protocol="SASL_SSL", sasl_mechanism="PLAIN", username="me")


def test_a_list_is_one_text_with_commas(file: Path) -> None:
    file.write_text("posts: {langs: [en, 'no', pt-BR]}")
    assert load_config(file, {}).posts.langs == "en,no,pt-BR"
    assert load_config(file, {"NEWSIFT_POSTS__LANGS": "de, fr"}).posts.langs == "de, fr"
    assert load_config(file, {"NEWSIFT_POSTS__LANGS": "[de, 'no']"}).posts.langs == "de,no"
    assert load_config(file, {"NEWSIFT_POSTS__LANGS": ""}).posts.langs is None


@pytest.mark.parametrize(
    "raw", [b"", b"\n# nothing\n", b"---\n", b"\xef\xbb\xbf", b"kafka:\n", b"{}"]
)
def test_an_empty_file_is_the_defaults(file: Path, raw: bytes) -> None:
    file.write_bytes(raw)
    assert load_config(file, {}) == Config()


@pytest.mark.parametrize(
    ("raw", "message"),
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
        (b"log: &a {level: *a}\n", "log.level: a mapping"),
    ],
    ids=itertools.count(),
)
def test_bad_yaml_is_refused(file: Path, raw: bytes, message: str) -> None:
    assert message in refusal(file, raw)


def test_yes_and_no_and_numbers_with_colons_are_texts(file: Path) -> None:
    file.write_text("topics: {posts: no, seeds: on, matches: yes, rejected: off}\n")
    topics = load_config(file, {}).topics
    assert (topics.posts, topics.seeds, topics.matches, topics.rejected) == (
        "no", "on", "yes", "off",
    )  # fmt: skip
    file.write_text("stream: {in_flight: 010, stall_s: 1e2}\nkafka: {group: 1:30}\n")
    config = load_config(file, {})
    assert (config.stream.in_flight, config.stream.stall_s, config.kafka.group) == (10, 100, "1:30")


NAMES = [(section, key) for section, keys in KEYS.items() for key in keys]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20)


@settings(max_examples=100)
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
        result = getattr(getattr(config, section), key)
        if isinstance(result, str | Path) and not isinstance(value, str):
            value = yaml.safe_dump(value).split("\n")[0]
        assert result == value or str(result) == str(file.parent / str(value)) or value == ""


@settings(max_examples=100)
@given(
    st.sampled_from(
        ["a", "no", "1:2", "0x1", "-", "x y", "#", "null", "é: {", "5", "1e3", "a:", "'"]
    )
)
def test_the_rendered_configuration_can_be_read_again(file: Path, host: str) -> None:
    loaded = load(None, {"NEWSIFT_WEB__HOST": host, "NEWSIFT_MATCHING__THRESHOLD": "0.25",
                         "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL",
                         "NEWSIFT_KAFKA__CA_FILE": f"/{host}"})  # fmt: skip
    file.write_text(render_config(loaded.config, loaded.origins), "utf-8")
    assert load_config(file, {}) == loaded.config


@pytest.mark.parametrize(("text", "value", "shown"), [("all", inf, "all"), ("7", 7.0, 7.0)])
def test_a_number_may_be_a_word(file: Path, text: str, value: float, shown: object) -> None:
    loaded = load(None, {"NEWSIFT_MATCHING__READ_FACTOR": text})
    assert loaded.config.matching.read_factor == value
    assert to_values(loaded.config)["matching"]["read_factor"] == shown
    file.write_text(render_config(loaded.config, loaded.origins), "utf-8")
    assert load_config(file, {}) == loaded.config


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("key", ["CONFIG", "KAFKA__PASSWORD_FILE", "KAFKA__CA_FILE"])
def test_pipes_and_devices_are_refused(kind: str, key: str, tmp_path: Path) -> None:
    path = tmp_path / "endless"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    env = {f"NEWSIFT_{key}": str(path), "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL"}
    with pytest.raises(ConfigError, match=str(path)):
        tls_context(load(None, env).config)


def test_a_huge_file_is_not_read_whole(tmp_path: Path) -> None:
    file = tmp_path / "huge.yaml"
    with file.open("wb") as sparse:
        sparse.truncate(2**40)
    with pytest.raises(ConfigError, match="larger than 1048576 bytes"):
        load(file, {})


WORD = "correct-horse"
LOGIN = {
    "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "NEWSIFT_KAFKA__SASL_MECHANISM": "SCRAM-SHA-512",
    "NEWSIFT_KAFKA__USERNAME": "me",
}


def test_only_reveal_shows_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    loaded = load(None, LOGIN | {"NEWSIFT_KAFKA__PASSWORD": WORD})
    config, secret, page = (
        loaded.config,
        loaded.config.kafka.password,
        render_config(loaded.config, loaded.origins),
    )
    assert secret is not None
    assert secret.reveal() == WORD
    logging.getLogger("x").warning("%s %r", secret, config)
    shown = [str(secret), repr(secret), f"{secret:>9}", repr(config), caplog.text,
             str(asdict(config)), str(to_values(config)), str([secret]), page]  # fmt: skip
    assert "password: null  # *** from NEWSIFT_KAFKA__PASSWORD" in page
    assert [text for text in shown if WORD in text] == []
    assert copy.deepcopy(secret) == copy.copy(secret) == secret != Secret("another")
    for give_away in (pickle.dumps, json.dumps, vars):
        with pytest.raises(TypeError):
            give_away(secret)


def test_a_password_in_the_file_is_refused_and_not_repeated(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    for value in (WORD, "12345", "[x]"):
        file.write_text(f"kafka:\n  password: {value}\n")
        with pytest.raises(ConfigError, match=r"line 2: kafka\.password: ") as raised:
            load_config(file, {})
        assert value not in str(raised.value)
    file.write_text("kafka:\n  password: null\n")
    assert load_config(file, {}) == Config()


def test_a_password_comes_from_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "word").write_text(f"{WORD}\n")
    file = tmp_path / "config.yaml"
    file.write_text("kafka: {password_file: word}\n")
    config = load_config(file, LOGIN)
    assert config.kafka.password == Secret(WORD)
    with pytest.raises(ConfigError, match="PASSWORD is set too; unset one of the two") as raised:
        load_config(file, LOGIN | {"NEWSIFT_KAFKA__PASSWORD": WORD})
    assert WORD not in str(raised.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "cannot be read"), (b"", "is empty"), (b"\xff", "not UTF-8"), (b"a\nb", "more than")],
)
def test_a_bad_password_file(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "word").write_bytes(content)
    env = LOGIN | {"NEWSIFT_KAFKA__PASSWORD_FILE": str(tmp_path / "word")}
    with pytest.raises(ConfigError, match=message) as raised:
        load_config(None, env)
    assert str(raised.value).startswith("NEWSIFT_KAFKA__PASSWORD_FILE: kafka.password_file: ")


def test_what_an_error_shows_of_an_address_has_no_password() -> None:
    with pytest.raises(ConfigError) as raised:
        load_config(None, {"NEWSIFT_KAFKA": f"me:{WORD}@host:9092"})
    assert WORD not in str(raised.value)
    assert "@host:9092" in str(raised.value)
