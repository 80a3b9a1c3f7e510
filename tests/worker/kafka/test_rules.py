"""What the topics should be like: every rule, on topics made up for it."""

from dataclasses import replace

import pytest

from worker.config import Config, TopicsConfig, load_config
from worker.kafka.rules import (
    Actual,
    Difference,
    differences,
    kafka_topics,
    new_topics,
    roomy,
)

CONFIG = Config()
LARGE = {"max.message.bytes": str(roomy(CONFIG))}
DELETED = {"cleanup.policy": "delete", "retention.ms": "604800000", **LARGE}
GOOD: dict[str, Actual | None] = {
    "tweets": Actual(4, 1, DELETED | {"max.message.bytes": "1048588"}),
    "seed-articles": Actual(1, 1, {"cleanup.policy": "compact"}),
    "matched-tweets": Actual(4, 1, DELETED),
    "rejected-tweets": Actual(4, 1, DELETED),
    "newsift-labels": Actual(1, 1, {"cleanup.policy": "compact"}),
}


def with_settings(name: str, **settings: str) -> list[Difference]:
    topic = GOOD[name]
    assert topic is not None
    given = {key.replace("_", "."): value for key, value in settings.items()}
    changed = replace(topic, settings={**topic.settings, **given})
    return differences(CONFIG, GOOD | {name: changed}, 1)


def test_good_topics_differ_in_nothing() -> None:
    assert differences(CONFIG, GOOD, 1) == []


def test_what_is_made_is_good() -> None:
    made: dict[str, Actual | None] = {}
    for name, new in new_topics(CONFIG).items():
        settings, partitions = new.get("configs", {}), new["num_partitions"]
        assert isinstance(settings, dict)
        assert isinstance(partitions, int)
        made[name] = Actual(partitions, 1, {"cleanup.policy": "delete"} | settings)
    assert differences(CONFIG, made, 1) == []
    assert made["seed-articles"] == Actual(1, 1, {"cleanup.policy": "compact"})


def test_missing_topics_come_first_with_the_command() -> None:
    bad = GOOD | {
        "tweets": None,
        "seed-articles": Actual(4, 1, {"cleanup.policy": "delete"}),
    }
    del bad["rejected-tweets"]
    actual = differences(CONFIG, bad, 1)
    assert [(d.topic, d.actual) for d in actual[:2]] == [
        ("tweets", "missing"), ("rejected-tweets", "missing"),
    ]  # fmt: skip
    assert [(d.setting, d.serious) for d in actual[2:]] == [
        ("partitions", True), ("cleanup.policy", True),
    ]  # fmt: skip
    assert kafka_topics(CONFIG, "tweets") in actual[0].fix


def test_the_command_is_kafka_s_own() -> None:
    config = load_config(None, {"NEWSIFT_TOPICS__REPLICATION": "3", "NEWSIFT_KAFKA": "b:1"})
    assert kafka_topics(config, "seed-articles") == (
        "kafka-topics.sh --bootstrap-server b:1 --create --topic seed-articles --partitions 1 "
        "--replication-factor 3 --config cleanup.policy=compact --config min.insync.replicas=2"
    )


def test_settings_that_the_broker_hides_are_not_guessed() -> None:
    for name in GOOD:
        topic = GOOD[name]
        assert topic is not None
        actual = differences(CONFIG, GOOD | {name: replace(topic, settings={})}, 1)
        assert [(d.topic, d.setting, d.serious) for d in actual] == [(name, "settings", False)]
        assert f"--operation DescribeConfigs --topic {name}" in actual[0].fix


@pytest.mark.parametrize("policy", ["delete", "compact,delete", "delete, compact"])
def test_the_control_topic_has_to_be_compacted(policy: str) -> None:
    [difference] = with_settings("seed-articles", cleanup_policy=policy)
    assert difference.setting == "cleanup.policy"
    assert (difference.actual, difference.required) == (policy, "compact")
    assert difference.serious
    assert "--add-config cleanup.policy=compact" in difference.fix


@pytest.mark.parametrize("name", ["tweets", "matched-tweets", "rejected-tweets"])
def test_the_others_must_not_be(name: str) -> None:
    [difference] = with_settings(name, cleanup_policy="compact")
    assert (difference.topic, difference.setting) == (name, "cleanup.policy")
    assert difference.serious


@pytest.mark.parametrize("name", ["matched-tweets", "rejected-tweets"])
def test_what_is_written_has_to_fit(name: str) -> None:
    [difference] = with_settings(name, max_message_bytes="1048588")
    assert (difference.setting, difference.required, difference.serious) == (
        "max.message.bytes", str(roomy(CONFIG)), False,
    )  # fmt: skip
    assert with_settings(name, max_message_bytes=str(roomy(CONFIG))) == []


def test_posts_have_to_be_kept_for_a_while() -> None:
    [difference] = with_settings("tweets", retention_ms="60000")
    assert "not read within 1 minutes" in difference.why
    assert with_settings("tweets", retention_ms="3600000") == []
    assert with_settings("tweets", retention_ms="-1") == []
    [difference] = with_settings("rejected-tweets", retention_ms="3600000")
    assert (difference.setting, difference.serious) == ("retention.ms", False)


def test_one_partition_of_posts_is_for_one_worker() -> None:
    actual = differences(CONFIG, GOOD | {"tweets": Actual(1, 1, DELETED)}, 1)
    assert [(d.setting, d.serious) for d in actual] == [("partitions", False)]
    alone = Config(topics=TopicsConfig(partitions=1))
    assert differences(alone, GOOD | {"tweets": Actual(1, 1, DELETED)}, 1) == []


@pytest.mark.parametrize(
    ("required", "brokers", "said"), [(None, 1, None), (None, 2, "2"), (None, 9, "3"), (2, 5, "2")]
)
def test_copies(required: int | None, brokers: int, said: str | None) -> None:
    config = Config(topics=TopicsConfig(replication=required))
    actual = differences(config, GOOD, brokers)
    assert {(d.setting, d.required) for d in actual} == ({("replication", said)} if said else set())
    assert len(actual) == (5 if said else 0)


def test_a_record_must_be_on_two_of_three_brokers_and_cannot_be_on_more_than_there_are() -> None:
    def told(copies: int, least: str) -> list[tuple[str, bool]]:
        settings = {"cleanup.policy": "compact", "min.insync.replicas": least}
        actual = differences(CONFIG, GOOD | {"seed-articles": Actual(1, copies, settings)}, 1)
        return [(d.required, d.serious) for d in actual if d.setting == "min.insync.replicas"]

    assert told(3, "1") == [("2", False)]
    assert told(3, "2") == told(2, "1") == told(1, "1") == []
    assert told(2, "3") == [("at most 2", True)]


def test_three_copies_are_made_to_be_two_in_sync() -> None:
    three = new_topics(Config(topics=TopicsConfig(replication=3)))
    for new in three.values():
        configs = new["configs"]
        assert isinstance(configs, dict)
        assert configs["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in str(new_topics(CONFIG))
