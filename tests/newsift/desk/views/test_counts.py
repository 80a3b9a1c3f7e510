import json

from newsift.desk.views.counts import counts, frame
from newsift.desk.views.judge import answer, question
from tests.broker.clients import until
from tests.newsift.cli.test_estimate import MATCHED, match_on
from tests.newsift.desk.desk_client import call, open_desk
from tests.worker.command_topics import MATCHES, Kafka
from tests.worker.fake_command import Command


def test_the_page_counts_what_the_command_counts(kafka: Kafka, newsift: Command) -> None:
    kafka.fill(MATCHES, [match_on(n) for n in range(MATCHED)])
    key = {"event": "storm", "by": "ann", "kind": "count", "labels": 40}
    with open_desk(matches=True) as desk:
        assert call(desk, counts, event="storm")["total"] is None
        until(lambda: not call(desk, question, **key)["drawing"])
        state = call(desk, question, **key)
        for number in range(state["left"]):
            post, verdict = state["question"], "off" if number % 3 else "on"
            state = call(
                desk, answer, **key, queue=state["queue"], platform="x", id=post["id"],
                verdict=verdict,
            )  # fmt: skip
        assert (state["left"], state["question"]) == (0, None)
        page = call(desk, counts, event="storm")
        assert page["step"] == "hour"  # the posts are of three days
        out = newsift("estimate", "storm", "--by", "hour", "--json").out
        *periods, total = [json.loads(line) for line in out.splitlines()]
        assert page["periods"] == periods
        assert {**page["total"], **{name: page[name] for name in page if name in total}} == total
        with call(desk, frame, event="storm", by="ann").content as file:
            assert file.read().decode() == newsift("estimate", "storm", "--csv", "--all").out
