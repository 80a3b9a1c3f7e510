"""The listeners of a test Apache Kafka: TLS, client certificates, logins, rights."""

import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Self

USER, PASSWORD = "sifter", "correct-horse-battery"
HOST = "localhost"  # the only name in the broker's certificate
SCRAM = ("SCRAM-SHA-256", "SCRAM-SHA-512")
PROTOCOLS = {"TLS": "SSL", "MUTUAL": "SSL", "PLAIN": "SASL_SSL", "SCRAM": "SASL_PLAINTEXT"}
LOGIN = "org.apache.kafka.common.security"


@dataclass(frozen=True, slots=True)
class Doors:
    """Listeners beside the plain one, by name, and the folder of the certificates."""

    folder: Path
    ports: dict[str, int]

    @classmethod
    def made(cls, folder: Path, ports: list[int]) -> Self:
        folder.mkdir()
        for authority in ("ca", "other-ca"):
            certify(folder, authority, "basicConstraints=critical,CA:TRUE", by=None)
        certify(folder, "broker", f"subjectAltName=DNS:{HOST}", by="ca")
        certify(folder, "client", "basicConstraints=CA:FALSE", by="ca")
        certify(folder, "stranger", "basicConstraints=CA:FALSE", by="other-ca")
        pair = [(folder / name).read_text("ascii") for name in ("broker.key", "broker.pem")]
        (folder / "keystore.pem").write_text("".join(pair), "ascii")
        return cls(folder, dict(zip(PROTOCOLS, ports, strict=True)))

    def address(self, door: str, host: str = HOST) -> str:
        return f"{host}:{self.ports[door]}"

    def file(self, name: str) -> str:
        return str(self.folder / name)

    @property
    def listeners(self) -> list[str]:
        return [f"{door}://{HOST}:{port}" for door, port in self.ports.items()]

    @property
    def users(self) -> list[str]:
        given = f"[name={USER},password={PASSWORD}]"
        return [word for way in SCRAM for word in ("--add-scram", f"{way}={given}")]

    @property
    def settings(self) -> dict[str, str]:
        kinds = {"PLAINTEXT": "PLAINTEXT", "CONTROLLER": "PLAINTEXT"} | PROTOCOLS
        scram = {
            f"listener.name.scram.{way.lower()}.sasl.jaas.config":
            f"{LOGIN}.scram.ScramLoginModule required;" for way in SCRAM
        }  # fmt: skip
        return scram | {
            # Who logs in may do all with a topic or group of which no right is given to anybody.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
            "listener.security.protocol.map": ",".join(f"{k}:{v}" for k, v in kinds.items()),
            "inter.broker.listener.name": "PLAINTEXT",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": self.file("keystore.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.file("ca.pem"),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.scram.sasl.enabled.mechanisms": ",".join(SCRAM),
            "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plain.plain.sasl.jaas.config":
            f'{LOGIN}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
        }  # fmt: skip


def certify(folder: Path, name: str, extension: str, *, by: str | None) -> None:
    signed = ["-CA", f"{by}.pem", "-CAkey", f"{by}.key"] if by else []
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
         "-nodes", "-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2",
         "-subj", f"/CN={name}", "-addext", extension, *signed],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
