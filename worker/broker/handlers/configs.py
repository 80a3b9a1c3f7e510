"""Settings of topics, described and altered; those of the broker can only be read."""

from typing import Any

from kafka.protocol.admin import DescribeConfigsResponse, IncrementalAlterConfigsResponse

from worker.broker.codes import Code, Refused, refusal_of
from worker.broker.configs import SETTINGS, TopicConfig
from worker.broker.settings import NODE, Cluster
from worker.broker.wire import Call

TOPIC, BROKER = 2, 4
SET, DELETE = 0, 1
OF_TOPIC, OF_BROKER, BY_DEFAULT = 1, 4, 5
RESULT = DescribeConfigsResponse.DescribeConfigsResult
ENTRY = RESULT.DescribeConfigsResourceResult


async def describe_configs(cluster: Cluster, call: Call) -> Any:
    """What topics and the broker are set to."""
    results = []
    for asked in call.body.resources:
        entries: list[Any] = []
        code, why = refusal_of(_describe, cluster, asked, entries)
        results.append(
            RESULT(
                error_code=code, error_message=why, resource_type=asked.resource_type,
                resource_name=asked.resource_name, configs=entries,
            )
        )  # fmt: skip
    return DescribeConfigsResponse(version=call.version, results=results)


async def alter_configs(cluster: Cluster, call: Call) -> Any:
    """Set and unset single settings of a topic."""
    responses = []
    for asked in call.body.resources:
        code, why = refusal_of(_alter, cluster, asked, call.body.validate_only)
        responses.append(
            IncrementalAlterConfigsResponse.AlterConfigsResourceResponse(
                error_code=code, error_message=why, resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
        )  # fmt: skip
    return IncrementalAlterConfigsResponse(version=call.version, responses=responses)


def _alter(cluster: Cluster, asked: Any, only_check: bool) -> None:
    if asked.resource_type != TOPIC:
        raise Refused(Code.INVALID_REQUEST, "only topics can be set while this broker runs")
    topic = cluster.topics[asked.resource_name]
    values: dict[str, str | None] = dict(topic.config.given)
    for change in asked.configs:
        if change.config_operation == SET:
            values[change.name] = change.value
        elif change.config_operation == DELETE:
            values.pop(change.name, None)
        else:
            said = f"{change.name}: operation {change.config_operation} is not possible; set it"
            raise Refused(Code.INVALID_CONFIG, said)
    config = TopicConfig(values)
    if not only_check:
        topic.config = config


def _describe(cluster: Cluster, asked: Any, entries: list[Any]) -> None:
    wanted = asked.configuration_keys
    if asked.resource_type == TOPIC:
        config = cluster.topics[asked.resource_name].config
        rows = [(n, config.text(n), n in config.given, OF_TOPIC, False) for n in SETTINGS]
    elif asked.resource_type == BROKER:
        if asked.resource_name not in ("", str(NODE)):
            raise Refused(Code.INVALID_REQUEST, f"there is no broker {asked.resource_name}")
        rows = [(n, v, True, OF_BROKER, True) for n, v in _of_broker(cluster).items()]
    else:
        raise Refused(Code.INVALID_REQUEST, f"resource type {asked.resource_type} has no settings")
    entries += [
        ENTRY(
            name=name, value=value, read_only=read_only, is_sensitive=False, synonyms=[],
            config_source=source if is_set else BY_DEFAULT,
        )
        for name, value, is_set, source, read_only in rows
        if wanted is None or name in wanted
    ]  # fmt: skip


def _of_broker(cluster: Cluster) -> dict[str, str]:
    settings = cluster.settings
    return {
        "auto.create.topics.enable": str(settings.auto_create).lower(),
        "broker.id": str(NODE),
        "group.max.session.timeout.ms": str(round(settings.max_session_s * 1000)),
        "group.min.session.timeout.ms": str(round(settings.min_session_s * 1000)),
        "log.retention.bytes": str(settings.retention_bytes),
        "num.partitions": str(settings.partitions),
        "socket.request.max.bytes": str(settings.max_request_bytes),
    }
