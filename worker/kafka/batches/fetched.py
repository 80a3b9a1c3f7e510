"""Where a kafka-python consumer takes in what a broker answered: there its batches are opened."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any

from worker.kafka.batches.opener import Opener


def opening(consumer: Any, batch_bytes: int) -> Any:
    """The consumer, with a bound on what a batch unpacks to; it is made with check_crcs=False.

    A batch that cannot be read is named on standard error, and passed over.
    """
    opener, fetcher = Opener(batch_bytes), consumer._fetcher
    handle, poll = fetcher._handle_fetch_response, consumer.poll

    def take(node: Any, starts: Any, sent_at: float, answer: Any) -> None:
        room = opener.room()
        for topic in answer.responses:
            for part in topic.partitions:
                if part.records:
                    start = starts[topic.topic, part.partition_index]
                    end = part.high_watermark
                    part.records = opener.opened(bytes(part.records), start, end, room)
        handle(node, starts, sent_at, answer)

    def read(*given: Any, **settings: Any) -> dict[Any, list[Any]]:
        found = poll(*given, **settings)
        return {place: list(_readable(rows, opener)) for place, rows in found.items()}

    fetcher._handle_fetch_response, consumer.poll = take, read
    return consumer


def _readable(rows: Sequence[Any], opener: Opener) -> Iterator[Any]:
    for row in rows:
        if (passed := opener.seen(row)) is None:
            yield row
        else:
            sys.stderr.write(f"newsift: {passed}\n")
