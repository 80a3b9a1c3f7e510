"""The rules for topics, each on invented topics."""

from dataclasses import replace

import pytest

from worker.config import Config, TopicsConfig, load_config
from worker.kafka.rules import Actual, Difference, differences, kafka_topics, new_topics, roomy

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
    changed = replace(topic, settings={**topic.settings, **settings})
    return differences(CONFIG, GOOD | {name: changed}, 1)


def test_new_topics_fit() -> None:
    made: dict[str, Actual | None] = {}
    for name, new in new_topics(CONFIG).items():
        settings, partitions = new.get("configs", {}), new["num_partitions"]
        assert isinstance(settings, dict)
        assert isinstance(partitions, int)
        made[name] = Actual(partitions, 1, {"cleanup.policy": "delete"} | settings)
    assert differences(CONFIG, made, 1) == []
    assert made["seed-articles"] == Actual(1, 1, {"cleanup.policy": "compact"})


def test_missing_topics_come_first_with_the_command() -> None:
    bad = GOOD | {"tweets": None, "seed-articles": Actual(4, 1, {"cleanup.policy": "delete"})}
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


def test_hidden_settings_are_one_difference() -> None:
    for name in GOOD:
        topic = GOOD[name]
        assert topic is not None
        actual = differences(CONFIG, GOOD | {name: replace(topic, settings={})}, 1)
        assert [(d.topic, d.setting, d.serious) for d in actual] == [(name, "settings", False)]
        assert f"--operation DescribeConfigs --topic {name}" in actual[0].fix


@pytest.mark.parametrize(
    ("name", "setting", "value", "required", "serious"),
    [
        *(("seed-articles", "cleanup.policy", value, "compact", True)
          for value in ("delete", "compact,delete", "delete, compact")),
        *((name, "cleanup.policy", "compact", "delete", True)
          for name in ("tweets", "matched-tweets", "rejected-tweets")),
        *((name, "max.message.bytes", "1048588", str(roomy(CONFIG)), False)
          for name in ("matched-tweets", "rejected-tweets")),
        ("rejected-tweets", "retention.ms", "3600000", "at least 86400000", False),
        ("tweets", "retention.ms", "60000", "at least 3600000", False),
    ],
)  # fmt: skip
def test_each_setting_has_a_required_value(
    name: str, setting: str, value: str, required: str, serious: bool
) -> None:
    [difference] = with_settings(name, **{setting: value})
    assert (difference.topic, difference.setting, difference.actual) == (name, setting, value)
    assert (difference.required, difference.serious) == (required, serious)


def test_one_partition_of_posts_is_for_one_worker() -> None:
    actual = differences(CONFIG, GOOD | {"tweets": Actual(1, 1, DELETED)}, 1)
    assert [(d.setting, d.serious) for d in actual] == [("partitions", False)]
    alone = Config(topics=TopicsConfig(partitions=1))
    assert differences(alone, GOOD | {"tweets": Actual(1, 1, DELETED)}, 1) == []


@pytest.mark.parametrize(
    ("required", "brokers", "expected"),
    [(None, 1, None), (None, 2, "2"), (None, 9, "3"), (2, 5, "2")],
)
def test_the_number_of_copies_depends_on_the_brokers(
    required: int | None, brokers: int, expected: str | None
) -> None:
    config = Config(topics=TopicsConfig(replication=required))
    actual = differences(config, GOOD, brokers)
    assert {(d.setting, d.required) for d in actual} == (
        {("replication", expected)} if expected else set()
    )
    assert len(actual) == (5 if expected else 0)


def test_of_three_copies_two_must_be_in_sync_and_never_more_than_there_are() -> None:
    def requirements(copies: int, least: str) -> list[tuple[str, bool]]:
        settings = {"cleanup.policy": "compact", "min.insync.replicas": least}
        actual = differences(CONFIG, GOOD | {"seed-articles": Actual(1, copies, settings)}, 1)
        return [(d.required, d.serious) for d in actual if d.setting == "min.insync.replicas"]

    assert requirements(3, "1") == [("2", False)]
    assert requirements(3, "2") == requirements(2, "1") == requirements(1, "1") == []
    assert requirements(2, "3") == [("at most 2", True)]


def test_topics_with_three_copies_are_created_with_two_in_sync() -> None:
    three = new_topics(Config(topics=TopicsConfig(replication=3)))
    for new in three.values():
        configs = new["configs"]
        assert isinstance(configs, dict)
        assert configs["min.insync.replicas"] == "2"
    assert "min.insync.replicas" not in str(new_topics(CONFIG))
