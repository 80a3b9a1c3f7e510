"""Rules and dashboard: whatever metric and label they name is one that the worker exports."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client import Histogram

from newsift.cli.watch.records import WATCHED, WatchCounts
from newsift.collect.collector import COLLECTED, RECONNECTS, Counts
from worker.match.drift import Drifting
from worker.metrics.registry import METRICS, Metrics

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text("utf-8"))
TESTS = "".join(file.read_text("utf-8") for file in (DEPLOY / "prometheus/tests").glob("*.yml"))
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "newsift.json").read_text("utf-8"))
SCRAPED = {"instance", "job"}  # Prometheus adds these
TIMES = re.compile(r"\[[^]]*\]")
NAME = re.compile(r"\b(newsift_\w+)(?:\{([^}]*)\})?")
GROUPED = re.compile(r"\b(?:by|on|ignoring|without) \(([^)]*)\)")


def exported() -> dict[str, set[str]]:
    """The labels of every series that a worker, a collector or a watch exports."""
    found: dict[str, set[str]] = {}
    for row in (*METRICS, *COLLECTED, RECONNECTS, *WATCHED):
        own = set(row.labels)
        if issubclass(row.kind, Histogram):
            found |= {f"{row.name}_bucket": own | {"le"}}
            found |= {f"{row.name}_sum": own, f"{row.name}_count": own}
        else:
            found[row.name] = own
    return found


def expressions() -> Iterator[tuple[str, str]]:
    """Every expression in the rules and panels, with where it stands."""
    for group in RULES["groups"]:
        yield from ((rule["alert"], rule["expr"]) for rule in group["rules"])
    for panel in DASHBOARD["panels"]:
        yield from ((panel["title"], target["expr"]) for target in panel["targets"])


@pytest.mark.parametrize(("where", "expr"), list(expressions()))
def test_every_metric_and_label_of_an_expression_is_exported(where: str, expr: str) -> None:
    series = exported()
    used = NAME.findall(expr)
    assert used, where
    assert {name for name, _ in used} <= set(series)
    for name, braces in used:
        assert set(re.findall(r"(\w+)\s*[=!]", braces)) <= series[name] | SCRAPED
    known = set().union(*(series[name] for name, _ in used)) | SCRAPED
    grouped = {label for part in GROUPED.findall(expr) for label in re.findall(r"\w+", part)}
    assert grouped <= known


def test_what_is_called_exported_is() -> None:
    """The table that the test above goes by tells the truth of a registry."""
    metrics = Metrics()
    metrics.lag(0, 5)
    metrics.open_transaction("tweets", 0, 3, 5.0)
    metrics.drift([Drifting("fire", "", 1.0, 0.1)])
    metrics.seeds(1, 2, 3, 4, 5, "0123456789ab", 0.0)
    page = (metrics.render() + Counts("bluesky").render() + WatchCounts().render()).decode()
    model = {"newsift_model_info"}  # has no series before a model is loaded
    found = set(re.findall(r"^(newsift_\w+)", page, re.MULTILINE))
    assert found == set(exported()) - model


@pytest.mark.parametrize(
    "name",
    ["stories_total", "bursts_total", "pass_ratio", "high_share", "seeds", "collect_lag_seconds",
     "collect_gaps_total", "collect_connected", "collect_acknowledged_total"],
)  # fmt: skip
def test_what_is_told_of_the_stream_and_of_collectors_is_shown(name: str) -> None:
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] == "timeseries"]
    drawn = [target["expr"] for panel in panels for target in panel["targets"]]
    assert f"newsift_{name}" in {used for expr in drawn for used, _ in NAME.findall(expr)}


def test_legends_name_labels_that_are_there() -> None:
    series = exported()
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            names = [name for name, _ in NAME.findall(target["expr"])]
            known = set().union(*(series[name] for name in names)) | SCRAPED
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= known


def test_every_alert_says_what_it_means_and_what_to_do_and_is_tested() -> None:
    tested = set(re.findall(r"Newsift\w+(?=\")|(?<=alertname: )Newsift\w+", TESTS))
    alerts = {rule["alert"]: rule for group in RULES["groups"] for rule in group["rules"]}
    assert tested == set(alerts)
    for rule in alerts.values():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}


def test_the_panels_lie_side_by_side() -> None:
    taken: set[tuple[int, int]] = set()
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
