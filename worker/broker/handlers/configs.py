"""Settings of topics, described and altered; those of the broker can only be read."""

from collections.abc import Mapping
from typing import Any

from kafka.protocol.admin import (
    AlterConfigsResponse,
    DescribeConfigsResponse,
    IncrementalAlterConfigsResponse,
)

from worker.broker.codes import Code, Refused
from worker.broker.configs import LISTS, SETTINGS, TopicConfig
from worker.broker.settings import NODE, Cluster
from worker.broker.wire import Call

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC, OF_BROKER, BY_DEFAULT = 1, 4, 5
RESULT = DescribeConfigsResponse.DescribeConfigsResult
ENTRY = RESULT.DescribeConfigsResourceResult


async def describe(cluster: Cluster, call: Call) -> Any:
    """What topics and the broker are set to."""
    results = []
    for asked in call.body.resources:
        code, why, entries = Code.NONE, None, []
        try:
            entries = _entries(cluster, asked)
        except Refused as refused:
            code, why = refused.code, refused.why
        results.append(
            RESULT(
                error_code=code, error_message=why, resource_type=asked.resource_type,
                resource_name=asked.resource_name, configs=entries,
            )
        )  # fmt: skip
    return DescribeConfigsResponse(version=call.version, results=results)


async def alter(cluster: Cluster, call: Call) -> Any:
    """Put these settings in place of all that a topic has."""

    def altered(_given: Mapping[str, str], configs: Any) -> dict[str, str | None]:
        return {each.name: each.value for each in configs}

    return _altered(cluster, call, AlterConfigsResponse, altered)


async def alter_incrementally(cluster: Cluster, call: Call) -> Any:
    """Set, unset, or add to and take from single settings of a topic."""

    def altered(given: Mapping[str, str], configs: Any) -> dict[str, str | None]:
        values: dict[str, str | None] = dict(given)
        for each in configs:
            _change(values, each)
        return values

    return _altered(cluster, call, IncrementalAlterConfigsResponse, altered)


def _altered(cluster: Cluster, call: Call, response: Any, altered: Any) -> Any:
    responses = []
    for asked in call.body.resources:
        code, why = Code.NONE, None
        try:
            if asked.resource_type != TOPIC:
                raise Refused(Code.INVALID_REQUEST, "only topics can be set while this broker runs")
            topic = cluster.topics[asked.resource_name]
            config = TopicConfig.of(altered(topic.config.given, asked.configs))
            if not call.body.validate_only:
                topic.config = config
        except Refused as refused:
            code, why = refused.code, refused.why
        responses.append(
            response.AlterConfigsResourceResponse(
                error_code=code, error_message=why, resource_type=asked.resource_type,
                resource_name=asked.resource_name,
            )
        )  # fmt: skip
    return response(version=call.version, responses=responses)


def _change(values: dict[str, str | None], change: Any) -> None:
    name, value = change.name, change.value
    if change.config_operation == SET:
        values[name] = value
    elif change.config_operation == DELETE:
        values.pop(name, None)
    elif change.config_operation in (APPEND, SUBTRACT) and name in LISTS:
        words = [word for word in (values.get(name) or SETTINGS[name][0]).split(",") if word]
        more = (value or "").split(",")
        if change.config_operation == APPEND:
            words += [word for word in more if word not in words]
        else:
            words = [word for word in words if word not in more]
        values[name] = ",".join(words)
    else:
        raise Refused(
            Code.INVALID_CONFIG, f"{name}: operation {change.config_operation} is not possible"
        )


def _entries(cluster: Cluster, asked: Any) -> list[Any]:
    wanted = asked.configuration_keys
    if asked.resource_type == TOPIC:
        config = cluster.topics[asked.resource_name].config
        rows = [(n, config.value(n), n in config.given, OF_TOPIC, False) for n in SETTINGS]
    elif asked.resource_type == BROKER:
        if asked.resource_name not in ("", str(NODE)):
            raise Refused(Code.INVALID_REQUEST, f"there is no broker {asked.resource_name}")
        rows = [(n, v, True, OF_BROKER, True) for n, v in _of_broker(cluster).items()]
    else:
        raise Refused(Code.INVALID_REQUEST, f"resource type {asked.resource_type} has no settings")
    return [
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
        "group.initial.rebalance.delay.ms": str(round(settings.rebalance_delay_s * 1000)),
        "group.max.session.timeout.ms": str(round(settings.max_session_s * 1000)),
        "group.min.session.timeout.ms": str(round(settings.min_session_s * 1000)),
        "log.retention.bytes": str(settings.retention_bytes),
        "num.partitions": str(settings.partitions),
        "socket.request.max.bytes": str(settings.max_request_bytes),
    }
