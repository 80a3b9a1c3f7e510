"""Run a command with an Apache Kafka of its own, whose address is in NEWSIFT_KAFKA.

python -m tests.broker.beside newsift bench stream
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.broker.kafka import ApacheKafka


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        kafka = ApacheKafka(Path(folder))
        kafka.start()
        try:
            env = os.environ | {"NEWSIFT_KAFKA": kafka.address}
            return subprocess.run(sys.argv[1:], env=env, check=False).returncode
        finally:
            kafka.stop()


if __name__ == "__main__":
    sys.exit(main())
