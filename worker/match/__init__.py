"""From a batch of messages and a set of seeds to records: pure, without Kafka, clock and files.

Messages come from `worker.stream` and are read by `worker.posts`; records go to
`worker.kafka.delivery`.
"""
