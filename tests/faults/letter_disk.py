"""A disk of Apache Kafka for the dead letters alone, which can be full.

A segment of theirs is allocated when it begins, and is larger than any other file of the broker.
So a limit on the size of files stops the dead letters alone: the broker cannot begin their next
segment, and takes their log directory offline until it is restarted.
"""

import shutil
from collections.abc import Mapping
from pathlib import Path

from tests.broker.clients import admin
from tests.broker.kafka import ApacheKafka

NODE = 1
LIMIT, SEGMENT = 2**29, 2**30
SEGMENT_MS = 10_000  # then the next one begins
CONFIGS = {
    "preallocate": "true", "segment_bytes": f"{SEGMENT}", "segment_ms": f"{SEGMENT_MS}",
}  # fmt: skip


def directory_settings(folder: Path) -> dict[str, str]:
    """The settings of a broker with a second log directory."""
    first = str(folder / "data")
    return {"log.dirs": f"{first},{folder / 'letters'}", "metadata.log.dir": first}


class LetterDisk:
    def __init__(self, kafka: ApacheKafka, letters: str) -> None:
        self._kafka, self._letters = kafka, letters

    def place(self, topics: Mapping[str, int]) -> None:
        """Before topics are created: the disk that their partitions shall be on."""
        folders = {
            (topic, partition, NODE): str(
                self._kafka.folder / ("letters" if topic == self._letters else "data")
            )
            for topic, count in topics.items()
            for partition in range(count)
        }
        with admin(self._kafka.address) as client:
            client.alter_replica_log_dirs(folders)

    def delete_orphans(self) -> None:
        """Delete, while the broker is down, what partitions of deleted topics left on the disk.

        The broker reads these folders when it starts, and ends where a segment is allocated
        and still empty.
        """
        for suffix in ("stray", "delete"):
            for folder in (self._kafka.folder / "letters").glob(f"*-{suffix}"):
                shutil.rmtree(folder)

    def fill(self) -> None:
        """Until the broker's next start."""
        self._kafka.limit_files(LIMIT)

    def offline_directories(self) -> list[str]:
        """The names of the log directories that the broker has taken offline."""
        with admin(self._kafka.address) as client:
            return [
                Path(each["log_dir"]).name
                for broker in client.describe_log_dirs()
                for each in broker["log_dirs"]
                if each["error_code"]
            ]
