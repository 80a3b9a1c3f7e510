"""Labels on their way to the broker, by one connection that stays open while people answer."""

from contextlib import ExitStack
from threading import Lock

from worker.actions.labels.topic import HEADERS, make_label_topic
from worker.config import Config
from worker.desk.turn import one_at_a_time
from worker.kafka.sending import Outbox, sending
from worker.kafka.settings import speaking

STOP_S = 1.0  # for a label on its way, when the desk ends


class LabelOutbox:
    """Publishes one label after the other; makes the topic with the first, as the commands do."""

    def __init__(self, config: Config) -> None:
        self._config, self._turn = config, Lock()
        self._open = ExitStack()
        self._outbox: Outbox | None = None

    def publish(self, key: bytes, value: bytes | None) -> None:
        """Publish a label, and wait until the broker has acknowledged it."""
        with one_at_a_time(self._turn, "labels before this one are still on their way"):
            try:
                with speaking(self._config):
                    outbox = self._opened()
                    outbox.send(self._config.topics.labels, value, key, HEADERS)
                    outbox.settle()
            except BaseException:
                self._close()
                raise

    def stop(self) -> None:
        """Close the connection, soon even to a broker that is away; harmless if there is none."""
        held = self._turn.acquire(timeout=STOP_S)
        self._close()
        if held:
            self._turn.release()

    def _opened(self) -> Outbox:
        if self._outbox is None:
            make_label_topic(self._config)
            self._outbox = self._open.enter_context(sending(self._config))
        return self._outbox

    def _close(self) -> None:
        self._outbox = None
        self._open.close()
