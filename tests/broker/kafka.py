"""Apache Kafka for tests: fetched once by Maven, every jar checked, one process in KRaft mode."""

import hashlib
import os
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from encoder.support.files import cache_root
from newsift.cli.processes import free_port
from tests.broker.secure import PROTOCOLS, Doors
from worker.kafka.topics import broker_count

HERE = Path(__file__).parent
VERSION = os.environ.get("NEWSIFT_TEST_KAFKA_VERSION", "4.1.0")
POM = HERE / "maven" / "pom.xml"
PINS = HERE / "maven" / f"kafka-{VERSION}.sha512"
CLUSTER = "bmV3c2lmdC10ZXN0cy0wMQ"  # 16 bytes in URL-safe base 64, as Kafka wants it
STARTS_WITHIN_S = 90
STOPS_WITHIN_S = 30
# A broker that serves a few tests: quick to start rather than fast in the long run.
JVM = ("-Xmx512m", "-Xms128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "num.partitions": "4",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "16777216",
    "log.initial.task.delay.ms": "500",
    # A node killed and started again waits until the controller has given up its former self.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
}


class KafkaUnavailable(RuntimeError):
    """Apache Kafka was asked for and cannot be had; the message says what is missing."""


def pinned() -> dict[str, str]:
    rows = (line.split() for line in PINS.read_text("ascii").splitlines())
    return {name.lstrip("*"): digest for digest, name in rows}


def check_jars(folder: Path) -> None:
    expected = pinned()
    result = {
        file.name: hashlib.sha512(file.read_bytes()).hexdigest() for file in folder.glob("*.jar")
    }
    wrong = sorted(name for name in expected | result if expected.get(name) != result.get(name))
    if wrong:
        raise KafkaUnavailable(f"{folder}: not the pinned jars ({', '.join(wrong)}); delete it")


def tool(name: str) -> str:
    result = shutil.which(name)
    if result is None:
        raise KafkaUnavailable(f"Apache Kafka needs `{name}`, which is not on the PATH")
    return result


def jars() -> Path:
    """The folder of Kafka's jars in the user's cache, fetched if it is not there, checked."""
    name = hashlib.sha256(POM.read_bytes() + PINS.read_bytes()).hexdigest()[:12]
    folder = cache_root() / f"kafka-{name}"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        fetched = Path(tempfile.mkdtemp(dir=folder.parent, prefix="kafka-fetching-"))
        try:
            fetch(fetched)
            with suppress(OSError):  # another process was quicker: its folder is as good
                fetched.rename(folder)
        finally:
            shutil.rmtree(fetched, ignore_errors=True)
    check_jars(folder)
    return folder


def fetch(folder: Path) -> None:
    command = [tool("mvn"), "-B", "-q", "-f", str(POM), "dependency:copy-dependencies"]
    done = subprocess.run(
        [*command, f"-Dkafka.version={VERSION}", f"-DoutputDirectory={folder}"],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    if done.returncode:
        raise KafkaUnavailable(f"mvn could not fetch Kafka: {(done.stdout + done.stderr)[-2000:]}")
    check_jars(folder)


def free_ports(count: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)


class ApacheKafka:
    def __init__(self, folder: Path, *, secure: bool = False, **settings: str) -> None:
        self.folder = folder
        self.port, controller, *others = free_ports(2 + len(PROTOCOLS))
        self.doors: Doors | None = None
        if secure:
            tool("openssl")
            self.doors = Doors.made(folder / "tls", others)
        self._classpath = f"{jars()}{os.sep}*"
        self._process: subprocess.Popen[bytes] | None = None
        self._log = folder / "kafka.log"
        self._properties = folder / "server.properties"
        listeners = [f"PLAINTEXT://127.0.0.1:{self.port}", f"CONTROLLER://127.0.0.1:{controller}"]
        users: list[str] = []
        if self.doors is not None:
            listeners += self.doors.listeners
            users, settings = self.doors.users, self.doors.settings | settings
        places = {
            "listeners": ",".join(listeners),
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "log.dirs": str(folder / "data"),
        }
        lines = [f"{key}={value}\n" for key, value in (SETTINGS | places | settings).items()]
        self._properties.write_text("".join(lines), "utf-8")
        form = ["format", "-t", CLUSTER, "-c", str(self._properties), *users]
        self._run("kafka.tools.StorageTool", *form)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command("kafka.Kafka", str(self._properties)),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder,
            )  # fmt: skip
        deadline = time.monotonic() + STARTS_WITHIN_S
        while not answers(self.address):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise KafkaUnavailable(f"Kafka did not start:\n{self._log.read_text()[-3000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(STOPS_WITHIN_S)
        self.kill()

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _command(self, main: str, *arguments: str) -> list[str]:
        return [tool("java"), *JVM, "-cp", self._classpath, main, *arguments]

    def _run(self, main: str, *arguments: str) -> None:
        done = subprocess.run(
            self._command(main, *arguments),
            capture_output=True, text=True, timeout=STARTS_WITHIN_S, check=False, cwd=self.folder,
        )  # fmt: skip
        if done.returncode:
            raise KafkaUnavailable(f"{main} failed: {(done.stdout + done.stderr)[-2000:]}")


def answers(address: str) -> bool:
    from kafka import KafkaAdminClient
    from kafka.errors import KafkaError

    host, port = address.rsplit(":", 1)
    admin = None
    try:
        socket.create_connection((host, int(port)), timeout=1).close()
        admin = KafkaAdminClient(bootstrap_servers=address, bootstrap_timeout_ms=2000)
        return broker_count(admin) > 0
    except (KafkaError, OSError, ValueError):
        return False
    finally:
        if admin is not None:
            admin.close()
