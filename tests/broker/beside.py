"""Run a command with an Apache Kafka of its own, whose address is in NEWSIFT_KAFKA.

python -m tests.broker.beside newsift bench stream
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.broker.kafka import ApacheKafka

USAGE = "usage: python -m tests.broker.beside COMMAND [ARGUMENT]…"


def main(command: list[str]) -> int:
    if not command or shutil.which(command[0]) is None:
        sys.stderr.write(f"{USAGE}\n" if not command else f"{command[0]}: there is none such\n")
        return 2
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # the broker has to end, too
    with tempfile.TemporaryDirectory() as folder:
        kafka = ApacheKafka(Path(folder))
        kafka.start()
        try:
            env = os.environ | {"NEWSIFT_KAFKA": kafka.address}
            code = subprocess.run(command, env=env, check=False).returncode
        except KeyboardInterrupt:
            code = -signal.SIGINT
        finally:
            kafka.stop()
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
