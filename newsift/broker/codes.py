"""Error codes of the Kafka protocol, and the exception that carries one."""

from collections.abc import Callable
from enum import IntEnum
from typing import ParamSpec

from encoder.errors import NewsiftError

P = ParamSpec("P")


class Code(IntEnum):
    """An error code on the wire; the names are Kafka's own."""

    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    INVALID_TOPIC_EXCEPTION = 17
    NOT_ENOUGH_REPLICAS = 19
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    INVALID_TIMESTAMP = 32
    ILLEGAL_SASL_STATE = 34
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    KAFKA_STORAGE_ERROR = 56
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    MEMBER_ID_REQUIRED = 79
    FENCED_INSTANCE_ID = 82
    INVALID_RECORD = 87


class RequestError(NewsiftError):
    def __init__(self, code: Code, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def run_for_error(
    work: Callable[P, object], *args: P.args, **kwargs: P.kwargs
) -> tuple[Code, str | None]:
    try:
        work(*args, **kwargs)
    except RequestError as error:
        return error.code, error.message
    return Code.NONE, None


def run_for_code(work: Callable[P, object], *args: P.args, **kwargs: P.kwargs) -> Code:
    return run_for_error(work, *args, **kwargs)[0]


NO_TRANSACTIONS = "this broker has no transactions; use an idempotent producer"


def transactions_error() -> RequestError:
    """Clients treat this code as final."""
    return RequestError(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, NO_TRANSACTIONS)
