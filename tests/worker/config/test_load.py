"""The configuration: defaults, where values come from, and what is refused."""

import itertools
from pathlib import Path

import pytest
import yaml

from worker.config import (
    KEYS,
    Config,
    KafkaConfig,
    TopicsConfig,
    load_config,
)
from worker.config.load import load
from worker.errors import ConfigError

SHIPPED = Path(__file__).parents[3] / "config.yaml"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def refusal(file: Path | None, text: str = "", **env: str) -> str:
    if file is not None:
        file.write_text(text, "utf-8")
    with pytest.raises(ConfigError) as raised:
        load_config(file, env)
    assert raised.value.exit_code == 2
    assert "\n" not in str(raised.value)
    return str(raised.value)


def test_the_shipped_file_is_the_defaults() -> None:
    given = yaml.safe_load(SHIPPED.read_text("utf-8"))
    assert given == {
        section: {name: key.default for name, key in keys.items()} for section, keys in KEYS.items()
    }
    assert load_config(SHIPPED, {}) == Config() == load_config(None, {})


def test_every_key_of_the_shipped_file_has_a_comment() -> None:
    lines = SHIPPED.read_text("utf-8").splitlines()
    keys = [n for n, line in enumerate(lines) if line.startswith("  ") and line[2] != "#"]
    assert len(keys) == sum(map(len, KEYS.values()))
    silent = [lines[n] for n in keys if not lines[n - 1].startswith("  # ")]
    assert silent == []


def test_every_default_keeps_the_rule_of_its_key() -> None:
    for section, keys in KEYS.items():
        for name, key in keys.items():
            assert key.default is None or key.rule.test(key.default), (section, name)


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
    ("text", "said"),
    [
        ("kafak: {}", ": kafak: unknown section; did you mean kafka?"),
        ("kafka: {groop: x}", "line 1: kafka.groop: unknown key; did you mean kafka.group?"),
        ("\nmatching:\n  device: cpu", "line 3: matching.device: unknown key; did you mean model."),
        ("matching: {background_rate: 0}", "0 is refused; give a number above 0 and below 1"),
        ("matching: {background_rate: nan}", "nan is refused"),
        ("matching: {threshold: 1.1}", "give a number above 0 and at most 1"),
        ("matching: {threshold: on}", "'on' is refused; give a number above 0"),
        ("matching: {why: no}", "matching.why: 'no' is refused; give true or false"),
        ("matching: {max_matches: 2.0}", "'2.0' is refused; give a whole number"),
        ("stream: {stall_s: 1" + "0" * 400 + "}", "stream.stall_s: "),
        ("web: {port: 65536}", "web.port: 65536 is refused; give a whole number from 0 to 65535"),
        ('web: {host: "a\\nb"}', "is refused; give a text on one line"),
        ("topics: {posts: null}", "_ or -, or leave it out for 'tweets'"),
        ("topics: {posts: a/b}", "topics.posts: 'a/b' is refused"),
        ("topics: {seeds: tweets}", "topics.seeds: 'tweets' is topics.posts too"),
        ("kafka: {bootstrap_servers: localhost}", "give host:port"),
        ("kafka: {bootstrap_servers: 'a:1,,b:2'}", "with commas between"),
        ("posts: {langs: [en, [de]]}", "posts.langs: a list"),
        ("posts: {langs: [en, null]}", "posts.langs: 'en,' is refused; give a language such as en"),
        ("kafka: {group: newsift}", "give a group other than 'newsift', which Faust takes"),
        ("kafka: {security_protocol: sasl}", "give one of PLAINTEXT, SSL, SASL_PLAINTEXT"),
        ("kafka: {username: me}", "kafka.username: set, and security_protocol PLAINTEXT has no"),
        ("kafka: {security_protocol: SSL, key_file: k}", "key_file: set, and cert_file is not"),
        ("kafka: {security_protocol: SASL_SSL}", "sasl_mechanism: null, and security_protocol"),
        ("kafka: {ca_file: ~nobody-here/x}", "'~nobody-here/x' is refused; give the path"),
        ('"a\\nb": {}', r": a\nb: unknown section"),
        ("? " + "x" * 5000 + "\n: {}", "x: unknown section"),
        ("log: {level: loud}", "give one of debug, info, warning, error, critical"),
    ],
    ids=itertools.count(),
)
def test_bad_files_are_refused(file: Path, text: str, said: str) -> None:
    found = refusal(file, text)
    assert found.startswith(str(file))
    assert said in found
    assert len(found) < 500


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("NEWSIFT_KAFAK__GROUP", "x", "kafak: unknown section; did you mean kafka?"),
        ("NEWSIFT_KAFKA__group", "x", "use NEWSIFT_KAFKA__GROUP"),
        ("NEWSIFT_STREAM__IN_FLIGHT", "3.0", "'3.0' is refused; give a whole number from 1"),
        ("NEWSIFT_STREAM__STALL_S", "nan", "nan is refused; give a number"),
        ("NEWSIFT_KAFKA", "nowhere", "kafka.bootstrap_servers: 'nowhere' is refused"),
    ],
)
def test_bad_variables_are_refused(variable: str, value: str, said: str) -> None:
    found = refusal(None, **{variable: value})
    assert found.startswith(variable)
    assert said in found


def test_two_variables_with_different_brokers_are_refused() -> None:
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
    assert load_config(file, {"NEWSIFT_POSTS__LANGS": ""}).posts.langs is None
