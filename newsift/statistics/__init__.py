"""Statistics of labels: thresholds with a promise, recall, profiles, and posts for a background.

Pure: no Kafka, no clock, no files.
"""

from newsift.statistics.estimates import recall_interval
from newsift.statistics.promise import precision_threshold

__all__ = ["precision_threshold", "recall_interval"]
