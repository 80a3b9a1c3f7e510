"""What labels and counts say of an event: its threshold, its recall, its profile, its bursts.

Pure, without Kafka, clock and files. Labels come from `worker.cli` and the desk; a threshold, an
interval or a profile goes back to them, and is published as a record that `worker.seeds` reads.
"""

from worker.judge.promise import precision_threshold
from worker.judge.recall import recall_interval

__all__ = ["precision_threshold", "recall_interval"]
