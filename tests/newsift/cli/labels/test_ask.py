from newsift.statistics.labels import Label, QueueName, read_label
from tests.newsift.cli.labels.at_terminal import AtTerminal
from tests.worker.judged import begin, drawn, labels, match
from tests.worker.kafka_side import LABELS, MATCHES, Kafka

KEYS = "[q] quit"


def test_matches_are_queued_in_the_order_of_their_hashes(kafka: Kafka) -> None:
    names = [str(n) for n in range(120)]
    kafka.fill(MATCHES, [match(n) for n in names])
    kafka.fill(MATCHES, [match("copy", group="0"), match("7", event="quake"), b"\xff{"])
    begin(kafka, "0")
    order = drawn(names)
    with AtTerminal("labels", "ask", "storm", "--by", "ann") as terminal:
        message = terminal.hears(KEYS)
        assert (
            f"0.500 (threshold 0.250)  x  2026-03-01T10:00:00Z  https://x.example/{order[0]}"
            in message
        )
        assert f"  rain[0.40] {order[0]}" in message
        assert "  second line" in message
        assert "19 more, if none is wrong" in message
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(message)
        for key, verdict in zip("ynuz", ("on", "off", "unsure", "undone"), strict=True):
            terminal.press("x" + key)
            terminal.hears(verdict)
            message = terminal.hears(KEYS)
        assert f"https://x.example/{order[2]}" in message
        terminal.press("q")
        assert terminal.ends() == 0
        assert "2 labels given" in terminal.shown
    a, b, c = order[:3]
    assert labels(kafka) == [(a, "on"), (b, "off"), (c, "unsure"), (c, None)]
    label = read_label(kafka.records(LABELS)[1].key, kafka.records(LABELS)[1].value)
    assert isinstance(label, Label)
    assert label.queue == QueueName("", "2026-03-01T10:00:00.000Z")
    assert (label.drawn, label.by, label.score, label.seed_set) == ("certify", "ann", 0.5, "ab")
    assert label.probability == 0.5 / len(order)
    with AtTerminal("labels", "ask", "storm", "--by", "ann") as terminal:
        assert f"https://x.example/{c}" in terminal.hears(KEYS)  # goes on where it ended
        assert terminal.interrupts() == 130
        assert "Traceback" not in terminal.shown
    with AtTerminal("labels", "ask", "storm", "--by", "ben") as terminal:
        assert f"https://x.example/{a}" in terminal.hears(KEYS)  # the same posts, for κ
