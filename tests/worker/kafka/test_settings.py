"""How clients reach the broker, and what they say when they do not."""

import asyncio
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiokafka
import aiokafka.errors
import kafka
import kafka.errors
import pytest

from worker.config import Config, load_config
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
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    with server.accept()[0] as plain:
                        if context is None:
                            plain.recv(1)
                        else:
                            context.wrap_socket(plain, server_side=True).close()
                except OSError:
                    if server.fileno() < 0 or stopped.is_set():
                        return

        stopped = threading.Event()
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        stopped.set()
        server.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.fixture
def speaks_tls() -> Iterator[str]:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(TLS / "cert.pem", TLS / "key.pem")
    with listening(context) as address:
        yield address


@pytest.fixture
def closed() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_without_a_login() -> None:
    found = config(BOOTSTRAP_SERVERS="a:1, b:2", REQUEST_TIMEOUT_S="2")
    assert aiokafka_settings(found) == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "newsift",
        "security_protocol": "PLAINTEXT",
        "request_timeout_ms": 2000,
    }
    assert kafka_python_settings(found) == aiokafka_settings(found) | {"bootstrap_timeout_ms": 2000}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_with_a_login(mechanism: str) -> None:
    found = load_config(None, LOGIN | {"NEWSIFT_KAFKA__SASL_MECHANISM": mechanism})
    for settings in (aiokafka_settings(found), kafka_python_settings(found)):
        assert settings["security_protocol"] == "SASL_PLAINTEXT"
        assert settings["sasl_mechanism"] == mechanism
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
def test_files_that_are_no_certificates(key: str, name: str) -> None:
    found = config(SECURITY_PROTOCOL="SSL", **{key: str(TLS / name)})
    with pytest.raises(ConfigError, match=rf"kafka\.{key.lower()}: .*{name} is refused \("):
        aiokafka_settings(found)


def test_the_settings_are_what_the_clients_take() -> None:
    for cls in (kafka.KafkaConsumer, kafka.KafkaProducer, kafka.KafkaAdminClient):
        assert set(kafka_python_settings(load_config(None, LOGIN))) <= set(cls.DEFAULT_CONFIG)

    async def make() -> None:
        settings = aiokafka_settings(load_config(None, LOGIN))
        await aiokafka.AIOKafkaConsumer(**settings).stop()
        await aiokafka.AIOKafkaProducer(**settings).stop()

    asyncio.run(make())


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (aiokafka.errors.AuthenticationFailedError("no"), AccessError, "login of me is refused"),
        (aiokafka.errors.SaslAuthenticationFailed("no"), AccessError, "login of me is refused"),
        (kafka.errors.SaslAuthenticationFailedError("no"), AccessError, "check kafka.username"),
        (kafka.errors.UnsupportedSaslMechanismError(), AccessError, "SCRAM-SHA-256; set the one"),
        (aiokafka.errors.TopicAuthorizationFailedError("t"), AccessError, "me has no right on the"),
        (kafka.errors.GroupAuthorizationFailedError("g"), AccessError, "group g; grant Read"),
        (kafka.errors.ClusterAuthorizationFailedError(), AccessError, "grant IdempotentWrite"),
        (kafka.errors.UnknownTopicOrPartitionError("t"), AccessError, "`newsift topics create`"),
        (aiokafka.errors.UnsupportedVersionError(), AccessError, "use Kafka 2.4 or later"),
        (aiokafka.errors.MessageSizeTooLargeError(), BrokerError, "raise max.message.bytes"),
        (ssl.SSLCertVerificationError("bad"), AccessError, "is not trusted"),
        (ssl.SSLError(1, "handshake"), AccessError, "TLS failed (handshake)"),
        (kafka.errors.KafkaStorageError("disk"), BrokerError, "KafkaStorageError: "),
        (OSError(28, "No space left"), BrokerError, "No space left"),
        (ValueError("odd\nthing"), BrokerError, "failed with ValueError: odd thing"),
    ],
)
def test_what_a_client_s_error_means(error: Exception, kind: type[Exception], said: str) -> None:
    found = broker_error(error, load_config(None, LOGIN | {"NEWSIFT_KAFKA": "b:1"}))
    assert type(found) is kind
    assert str(found).startswith("broker b:1: ")
    assert said in str(found)
    assert found.exit_code == (2 if kind is AccessError else 1)


def test_the_cause_is_found_and_the_password_is_not() -> None:
    outer = kafka.errors.KafkaConnectionError("connection failed")
    outer.__cause__ = kafka.errors.SaslAuthenticationFailedError("no")
    assert "login of me is refused" in str(broker_error(outer, load_config(None, LOGIN)))
    leaky = ValueError(f"me:{WORD}@b")
    found = broker_error(leaky, load_config(None, LOGIN))
    assert WORD not in str(found)
    assert broker_error(found, Config()) is found


def test_nobody_listens(closed: str) -> None:
    error = kafka.errors.KafkaTimeoutError(f"Unable to bootstrap from {closed}")
    said = broker_error(error, config(BOOTSTRAP_SERVERS=closed))
    assert isinstance(said, BrokerError)
    assert f"broker {closed}: nobody listens there" in str(said)
    assert "NEWSIFT_KAFKA" in str(said)
    said = broker_error(error, config(BOOTSTRAP_SERVERS="nowhere.invalid:1"))
    assert "the host nowhere.invalid is not known" in str(said)


def aiokafka_fails(found: Config) -> AccessError | BrokerError:
    """What is said when aiokafka cannot connect."""

    async def start() -> None:
        consumer = aiokafka.AIOKafkaConsumer(**aiokafka_settings(found))
        try:
            await consumer.start()
        finally:
            await consumer.stop()

    with pytest.raises(aiokafka.errors.KafkaConnectionError) as raised:
        asyncio.run(start())
    return broker_error(raised.value, found)


def test_tls_where_it_does_not_fit(speaks_tls: str) -> None:
    """A client says only that it could not connect; the address is tried, and the reason found."""
    tls = HURRY | {"NEWSIFT_KAFKA": speaks_tls, "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL"}
    said = aiokafka_fails(load_config(None, tls))
    assert isinstance(said, AccessError)
    assert "certificate is not trusted (self-signed certificate); set kafka.ca_file" in str(said)
    tls["NEWSIFT_KAFKA__CA_FILE"] = str(TLS / "cert.pem")
    said = aiokafka_fails(load_config(None, tls))
    assert isinstance(said, BrokerError)
    assert "does not answer" in str(said)
    said = aiokafka_fails(load_config(None, HURRY | {"NEWSIFT_KAFKA": speaks_tls}))
    assert isinstance(said, AccessError)
    assert "speaks TLS; set kafka.security_protocol to SSL or SASL_SSL" in str(said)


def test_a_server_that_does_not_speak_tls() -> None:
    with listening(None) as address:
        env = HURRY | {"NEWSIFT_KAFKA": address, "NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL"}
        said = aiokafka_fails(load_config(None, env))
        assert isinstance(said, AccessError)
        assert "does not speak TLS on this port; check kafka.security_protocol" in str(said)
        said = aiokafka_fails(load_config(None, HURRY | {"NEWSIFT_KAFKA": address}))
        assert isinstance(said, BrokerError)
        assert "does not answer" in str(said)


def test_one_address_of_several_that_answers_is_enough(closed: str, speaks_tls: str) -> None:
    env = {"NEWSIFT_KAFKA__SECURITY_PROTOCOL": "SSL",
           "NEWSIFT_KAFKA__CA_FILE": str(TLS / "cert.pem"),
           "NEWSIFT_KAFKA": f"{closed},{speaks_tls}"}  # fmt: skip
    error = kafka.errors.KafkaTimeoutError("too slow")
    said = str(broker_error(error, load_config(None, env)))
    assert "does not answer (KafkaTimeoutError: too slow)" in said


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (aiokafka.errors.AuthenticationFailedError("no"), "the login of me is refused"),
        (aiokafka.errors.IllegalSaslStateError("no"), "does not offer kafka.sasl_mechanism"),
        (aiokafka.errors.KafkaConnectionError("gone"), "does not answer (KafkaTimeoutError)"),
        (None, "does not answer (KafkaTimeoutError)"),
    ],
)
def test_a_client_that_keeps_the_reason_of_a_refused_login(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None, said: str
) -> None:
    """The clients try again and again, and say in the end that they could not connect."""
    given: dict[str, object] = {}

    class Connection:
        def close(self) -> None:
            given["closed"] = True

    async def create_conn(host: str, port: int, **settings: object) -> Connection:
        given.update(settings, host=host, port=port)
        if error is not None:
            raise error
        return Connection()

    monkeypatch.setattr("aiokafka.conn.create_conn", create_conn)
    with listening(None) as address:
        found = load_config(None, LOGIN | {"NEWSIFT_KAFKA": address})
        assert said in str(broker_error(kafka.errors.KafkaTimeoutError(), found))
    assert f"{given['host']}:{given['port']}" == address
    assert (given["sasl_plain_username"], given["sasl_plain_password"]) == ("me", WORD)
    assert ("closed" in given) == (error is None)
