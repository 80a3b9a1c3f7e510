import asyncio
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, TCPServer

import aiokafka
import aiokafka.errors
import kafka
import kafka.errors
import pytest

from tests.worker.fake_web_server import serving
from worker.config import Config
from worker.config.load import load_config
from worker.errors import AccessError, BrokerError, ConfigError
from worker.kafka.settings import (
    aiokafka_settings,
    broker_error,
    kafka_python_settings,
    tls_context,
)

# A certificate for localhost that signs itself, made for these tests alone.
TLS = Path(__file__).parent / "tls"
WORD = "correct-horse"
LOGIN = {
    "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SASL_PLAINTEXT",
    "NEWSIFT_KAFKA__SASL_MECHANISM": "SCRAM-SHA-256",
    "NEWSIFT_KAFKA__USERNAME": "me",
    "NEWSIFT_KAFKA__PASSWORD": WORD,
}
HURRY = {"NEWSIFT_KAFKA__REQUEST_TIMEOUT_S": "0.5"}


def config(**env: str) -> Config:
    return load_config(None, {f"NEWSIFT_KAFKA__{key}": value for key, value in env.items()})


@contextmanager
def listening(context: ssl.SSLContext | None) -> Iterator[str]:
    """A server that greets by TLS, or not at all, and hangs up."""

    class Greeting(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):
                if context is None:
                    self.request.recv(1)
                else:
                    context.wrap_socket(self.request, server_side=True).close()

    with serving(TCPServer(("127.0.0.1", 0), Greeting)) as server:
        yield f"127.0.0.1:{server.server_address[1]}"


def server_context() -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    return context


@pytest.fixture
def closed() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_the_clients_get_servers_and_login() -> None:
    plain = config(BOOTSTRAP_SERVERS="a:1, b:2", REQUEST_TIMEOUT_S="2")
    assert aiokafka_settings(plain) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "newsift",
        "security_protocol": "PLAINTEXT",
        "request_timeout_ms": 2000,
    }
    assert kafka_python_settings(plain) == aiokafka_settings(plain) | {"bootstrap_timeout_ms": 2000}
    with_login = load_config(None, LOGIN)
    for settings in (aiokafka_settings(with_login), kafka_python_settings(with_login)):
        assert settings["security_protocol"] == "SASL_PLAINTEXT"
        assert settings["sasl_mechanism"] == "SCRAM-SHA-256"
        assert settings["sasl_plain_username"] == "me"
        assert settings["sasl_plain_password"] == WORD
        assert "ssl_context" not in settings


def test_with_tls() -> None:
    files = {"CA_FILE": "cert.pem", "CERT_FILE": "cert.pem", "KEY_FILE": "key.pem"}
    own = {key: str(TLS / name) for key, name in files.items()}
    context = aiokafka_settings(config(SECURITY_PROTOCOL="SSL", **own))["ssl_context"]
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    assert len(context.get_ca_certs()) == 1
    system = tls_context(config(SECURITY_PROTOCOL="SSL"))
    assert system is not None
    assert system.get_ca_certs() != context.get_ca_certs()


@pytest.mark.parametrize(
    ("key", "name"), [("CA_FILE", "gone.pem"), ("CA_FILE", "key.pem"), ("CERT_FILE", "cert.pem")]
)
def test_files_without_certificates_are_refused(key: str, name: str) -> None:
    result = config(SECURITY_PROTOCOL="SSL", **{key: str(TLS / name)})
    with pytest.raises(ConfigError, match=rf"kafka\.{key.lower()}: .*{name} is refused \("):
        aiokafka_settings(result)


NO_GROUP = "FindCoordinatorResponse error for GROUP/g: "  # kafka-python's words


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (aiokafka.errors.AuthenticationFailedError("no"), AccessError, "login of me is refused"),
        (kafka.errors.UnsupportedSaslMechanismError(), AccessError, "SCRAM-SHA-256; set the one"),
        (aiokafka.errors.TopicAuthorizationFailedError("t"), AccessError, "me has no right on the"),
        (kafka.errors.TopicAuthorizationFailedError({"b", "a"}), AccessError, "topic a, b; grant"),
        (kafka.errors.GroupAuthorizationFailedError("g"), AccessError, "group g; grant Read"),
        (kafka.errors.GroupAuthorizationFailedError(NO_GROUP), AccessError, "group g; grant Read"),
        (kafka.errors.ClusterAuthorizationFailedError(), AccessError, "grant IdempotentWrite"),
        (kafka.errors.UnknownTopicOrPartitionError("t"), AccessError, "`newsift topics create`"),
        (aiokafka.errors.UnsupportedVersionError(), AccessError, "use Kafka 2.4 or later"),
        (aiokafka.errors.MessageSizeTooLargeError(), BrokerError, "raise max.message.bytes"),
        (ssl.SSLError(1, "handshake"), AccessError, "TLS failed (handshake)"),
        (ValueError("odd\nthing"), BrokerError, "failed with ValueError: odd thing"),
    ],
)
def test_each_client_error_has_a_message(
    error: Exception, kind: type[Exception], message: str
) -> None:
    result = broker_error(error, load_config(None, LOGIN | {"NEWSIFT_KAFKA": "b:1"}))
    assert type(result) is kind
    assert str(result).startswith("broker b:1: ")
    assert message in str(result)
    assert result.exit_code == (2 if kind is AccessError else 1)


def test_the_cause_counts_and_the_password_is_hidden() -> None:
    outer = kafka.errors.KafkaConnectionError("connection failed")
    outer.__cause__ = kafka.errors.SaslAuthenticationFailedError("no")
    assert "login of me is refused" in str(broker_error(outer, load_config(None, LOGIN)))
    leaky = ValueError(f"me:{WORD}@b")
    result = broker_error(leaky, load_config(None, LOGIN))
    assert WORD not in str(result)
    assert broker_error(result, Config()) is result


def test_an_address_without_a_server_is_named(closed: str) -> None:
    error = kafka.errors.KafkaTimeoutError(f"Unable to bootstrap from {closed}")
    message = broker_error(error, config(BOOTSTRAP_SERVERS=closed))
    assert isinstance(message, BrokerError)
    assert f"broker {closed}: nobody listens there" in str(message)
    assert "NEWSIFT_KAFKA" in str(message)
    message = broker_error(error, config(BOOTSTRAP_SERVERS="nowhere.invalid:1"))
    assert "the host nowhere.invalid is not known" in str(message)


TLS_ON = {"NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL"}
TRUSTED = TLS_ON | {"NEWSIFT_KAFKA__CA_FILE": str(TLS / "cert.pem")}


@pytest.mark.parametrize(
    ("server_has_tls", "env", "kind", "reason"),
    [
        (True, TLS_ON, AccessError, "certificate is not trusted"),
        (True, TRUSTED, BrokerError, "does not answer"),
        (True, {}, AccessError, "speaks TLS; set kafka.security_protocol"),
        (False, TLS_ON, AccessError, "does not speak TLS"),
        (False, {}, BrokerError, "does not answer"),
    ],
)
def test_the_reason_of_a_failed_connection_is_found_by_trying_the_address(
    server_has_tls: bool, env: dict[str, str], kind: type[Exception], reason: str
) -> None:
    async def start() -> None:
        consumer = aiokafka.AIOKafkaConsumer(**aiokafka_settings(ours))
        try:
            await consumer.start()
        finally:
            await consumer.stop()

    with listening(server_context() if server_has_tls else None) as address:
        ours = load_config(None, HURRY | env | {"NEWSIFT_KAFKA": address})
        with pytest.raises(aiokafka.errors.KafkaConnectionError) as raised:
            asyncio.run(start())
        error = broker_error(raised.value, ours)
    assert type(error) is kind
    assert reason in str(error)


def test_one_address_of_several_that_answers_is_enough(closed: str) -> None:
    error = kafka.errors.KafkaTimeoutError("too slow")
    with listening(server_context()) as address:
        env = TRUSTED | {"NEWSIFT_KAFKA": f"{closed},{address}"}
        message = str(broker_error(error, load_config(None, env)))
    assert "does not answer (KafkaTimeoutError: too slow)" in message
