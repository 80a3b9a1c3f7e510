"""Files of settings: a configuration, or an error of one line that names what is wrong."""

import tempfile
from pathlib import Path

from tests.faults.process import ROOT
from tests.hostile.fuzz.target import Target
from worker.config import load_config
from worker.errors import ConfigError

TOKENS = [
    b"kafka:", b"topics:", b"limits:", b"\n  ", b"\n", b"\t", b": ", b"- ", b"? ", b"&a ", b"*a",
    b"<<: *a", b"!!python/object/apply:os.system [id]", b"!!binary", b"{", b"}", b"[", b"]", b"|",
    b">", b"'", b'"', b"#", b"---", b"...", b"%YAML 9.9", b"null", b"1e999", b"0x10", b"1:30",
    b"\xff\xfe", b"\xef\xbb\xbf", b"\x00", b"9" * 400, "\u2028".encode(), "\u0301".encode(),
]  # fmt: skip


def refused_in_a_line(error: ConfigError) -> bool:
    assert str(error).isprintable(), str(error)
    return False


def opened() -> Target:
    file = Path(tempfile.mkdtemp()) / "config.yaml"
    whole = (ROOT / "config.yaml").read_bytes()
    bare = b"\n".join(line for line in whole.splitlines() if not line.strip().startswith(b"#"))
    corpus = [whole, bare, *bare.split(b"\n\n"), b"kafka: {group: a}\n"]

    def feed(content: bytes) -> bool:
        file.write_bytes(content)
        try:
            load_config(file, {})
        except ConfigError as error:
            return refused_in_a_line(error)
        return True

    # PyYAML looks for a key behind each of the last 1,024 brackets: a second or two at the most,
    # however long the file, and it is the operator's own.
    return Target(corpus, TOKENS, feed, ms_per_kb=1500, largest=2**14)
