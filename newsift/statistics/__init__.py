"""What labels say of an event: its threshold, its recall, its profile; and posts for a background.

Pure, without Kafka, clock and files. Labels come from `newsift.cli` and the desk; a threshold, an
interval or a profile goes back to them, and is published as a record that `worker.seeds` reads.
"""

from newsift.statistics.estimates import recall_interval
from newsift.statistics.promise import precision_threshold

__all__ = ["precision_threshold", "recall_interval"]
