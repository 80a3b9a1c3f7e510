"""Where a kafka-python consumer takes in what a broker answered: there its batches are opened."""

from typing import Any

from worker.batches.opener import Opener


def opened(consumer: Any, opener: Opener) -> Any:
    """The consumer, once it opens what it fetches; it is made with check_crcs=False."""
    fetcher = consumer._fetcher
    handle = fetcher._handle_fetch_response

    def take(node: Any, starts: Any, sent_at: float, answer: Any) -> None:
        room = opener.room()
        for topic in answer.responses:
            for part in topic.partitions:
                if part.records:
                    start = starts[topic.topic, part.partition_index]
                    end = part.high_watermark
                    part.records = opener.opened(bytes(part.records), start, end, room)
        handle(node, starts, sent_at, answer)

    fetcher._handle_fetch_response = take
    return consumer
