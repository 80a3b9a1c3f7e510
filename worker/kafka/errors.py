"""What errors of aiokafka and kafka-python mean, by class name, so that neither is imported."""

import errno
import re
import ssl
from collections.abc import Iterator

from worker.config import Config
from worker.errors import AccessError, BrokerError

Verdict = tuple[type[AccessError] | type[BrokerError], str]

LOGIN_REFUSED = (
    "the login of {kafka.username} is refused; check kafka.username, NEWSIFT_KAFKA__PASSWORD or "
    "kafka.password_file, and kafka.sasl_mechanism"
)
MECHANISM_REFUSED = (
    "does not offer kafka.sasl_mechanism {kafka.sasl_mechanism}; set the one that the broker's "
    "listener has, and check kafka.security_protocol"
)
TRANSACTION_REFUSED = "{who} has no right on the transactional id{what}; grant Write"
# Waiting cures none of these.
REFUSALS = {
    **dict.fromkeys(("AuthenticationFailedError", "SaslAuthenticationFailed",
                     "SaslAuthenticationFailedError"), LOGIN_REFUSED),
    **dict.fromkeys(("UnsupportedSaslMechanismError", "AuthenticationMethodNotSupported",
                     "IllegalSaslStateError"), MECHANISM_REFUSED),
    "TopicAuthorizationFailedError": "{who} has no right on the topic{what}; grant Describe and "
    "Read on what is read, Write on what is written",
    "GroupAuthorizationFailedError": "{who} has no right on the consumer group{what}; grant Read "
    "on it",
    "ClusterAuthorizationFailedError": "{who} has no right on the cluster{what}; grant "
    "IdempotentWrite, and Create or Alter for commands that create topics",
    **dict.fromkeys(("TransactionalIdAuthorizationFailedError",
                     "TransactionalIdAuthorizationFailed"), TRANSACTION_REFUSED),
}  # fmt: skip
MISSING_FEATURES = {
    **dict.fromkeys(("IncompatibleBrokerVersion", "UnrecognizedBrokerVersion",
                     "UnsupportedVersionError"),
                    "does not speak what newsift needs ({error}); use Kafka 2.4 or later"),
    **dict.fromkeys(("UnknownTopicOrPartitionError", "UnknownTopicIdError"),
                    "a topic{what} is missing; run `newsift topics create`"),
}  # fmt: skip
TOO_LARGE_ERRORS = {"MessageSizeTooLargeError", "RecordTooLargeError", "RecordListTooLargeError"}
NO_TLS_MESSAGE = "does not speak TLS on this port; check kafka.security_protocol and the port"
NO_TLS_REASONS = {
    "WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "UNEXPECTED_EOF_WHILE_READING",
}  # fmt: skip
BROKER_MESSAGE = re.compile(r"error_message='([^']*)'")
COORDINATOR_MESSAGE = re.compile(r"FindCoordinatorResponse error for \w+/([^:]*): ")
UNREACHABLE_ERRORS = {
    "KafkaConnectionError", "NoBrokersAvailable", "KafkaUnavailableError", "KafkaTimeoutError",
    "RequestTimedOutError", "NodeNotReadyError", "BrokerNotAvailableError", "ConnectionError",
    "MetadataEmptyBrokerList", "TimeoutError", "gaierror",
}  # fmt: skip
NETWORK_ERRNOS = {errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.EADDRNOTAVAIL}


def error_chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes, each once."""
    ids: set[int] = set()
    cause: BaseException | None = error
    while cause is not None and id(cause) not in ids:
        ids.add(id(cause))
        yield cause
        cause = cause.__cause__ or (None if cause.__suppress_context__ else cause.__context__)


def class_names(error: BaseException) -> set[str]:
    """Names of an error's classes, which both clients share."""
    return {cls.__name__ for cls in type(error).__mro__}


def is_refusal(error: BaseException) -> bool:
    """Whether the broker refuses for a reason that does not go away."""
    return bool(class_names(error) & REFUSALS.keys())


def is_unreachable(error: BaseException) -> bool:
    """Whether no broker answered."""
    network = isinstance(error, OSError) and error.errno in NETWORK_ERRNOS
    return network or bool(class_names(error) & UNREACHABLE_ERRORS)


def describe(error: BaseException) -> str:
    name, text = type(error).__name__, str(error)
    if match := BROKER_MESSAGE.search(text):  # kafka-python puts the whole request around it
        return f"{name}: {match[1]}"
    if not error.args and (description := getattr(error, "description", "")):
        return f"{name}: {description}"
    return text if text.split(":")[0].endswith(name) else f"{name}: {text}" if text else name


def explain(error: BaseException, config: Config) -> Verdict | None:
    """What an error means, and the remedy; None if no broker answered."""
    for cause in error_chain(error):
        if verdict := _explain_one(cause, config):
            return verdict
    if any(is_unreachable(cause) for cause in error_chain(error)):
        return None
    return BrokerError, f"failed with {describe(error)}; see the broker's log"


def _explain_one(error: BaseException, config: Config) -> Verdict | None:
    if isinstance(error, AccessError):
        return AccessError, str(error)
    if isinstance(error, ssl.SSLError):
        return AccessError, tls_refusal(error)
    kinds, kafka = class_names(error), config.kafka
    if kinds & TOO_LARGE_ERRORS:
        return BrokerError, "a record is too large; raise max.message.bytes of the topic"
    for name in kinds & {*REFUSALS, *MISSING_FEATURES}:
        what = f" {_resource(error.args[0])}" if error.args else ""
        message, who = (REFUSALS | MISSING_FEATURES)[name], user_name(config)
        return AccessError, message.format(kafka=kafka, who=who, what=what, error=error)
    return None


def user_name(config: Config) -> str:
    """Who the client is, in a message."""
    username = config.kafka.username
    return f"user {username}" if username else "an anonymous client"


def _resource(named: object) -> str:
    """The topics or the group that an error names, out of the words that kafka-python adds."""
    if isinstance(named, set | frozenset):
        return ", ".join(sorted(map(str, named)))
    match = COORDINATOR_MESSAGE.match(str(named))
    return match[1] if match else str(named)


def tls_refusal(error: ssl.SSLError) -> str:
    reason = getattr(error, "verify_message", None) or getattr(error, "reason", None)
    reason = reason or error.args[-1]
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not trusted ({reason}); set kafka.ca_file to the "
            "authority that signed it, and name the host as the certificate does"
        )
    if reason in NO_TLS_REASONS or isinstance(error, ssl.SSLZeroReturnError):
        return NO_TLS_MESSAGE
    return f"TLS failed ({reason}); check kafka.ca_file, kafka.cert_file and kafka.key_file"
