import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from prometheus_client import Histogram

from newsift.collect.collector import COLLECTOR_METRICS
from worker.metrics.registry import METRICS, BatchHistogram

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text("utf-8"))
TESTS = "".join(file.read_text("utf-8") for file in (DEPLOY / "prometheus/tests").glob("*.yml"))
DASHBOARD = json.loads((DEPLOY / "grafana" / "dashboards" / "newsift.json").read_text("utf-8"))
SCRAPED = {"instance", "job"}  # Prometheus adds these
NAME = re.compile(r"\b((?:event:)?newsift_[\w:]+)(?:\{([^}]*)\})?")
RECORDING = [r for group in RULES["groups"] for r in group["rules"] if "record" in r]
GROUPED = re.compile(r"\b(?:by|on|ignoring|without) \(([^)]*)\)")


def exported() -> dict[str, set[str]]:
    """The labels of every series that a worker or a collector exports."""
    result: dict[str, set[str]] = {}
    for row in (*METRICS, *COLLECTOR_METRICS):
        own = set(row.labels)
        if issubclass(row.kind, Histogram | BatchHistogram):
            result |= {f"{row.name}_bucket": own | {"le"}}
            result |= {f"{row.name}_sum": own, f"{row.name}_count": own}
        else:
            result[row.name] = own
    for rule in RECORDING:
        result[rule["record"]] = set(GROUPED.findall(rule["expr"]))
    return result


def expressions() -> Iterator[tuple[str, str]]:
    for group in RULES["groups"]:
        yield from ((rule.get("alert", "record"), rule["expr"]) for rule in group["rules"])
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
    labels = set().union(*(series[name] for name, _ in used)) | SCRAPED
    grouped = {label for part in GROUPED.findall(expr) for label in re.findall(r"\w+", part)}
    assert grouped <= labels


def test_legends_name_labels_that_are_there() -> None:
    series = exported()
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            names = [name for name, _ in NAME.findall(target["expr"])]
            labels = set().union(*(series[name] for name in names)) | SCRAPED
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= labels


def test_every_alert_is_described_and_tested() -> None:
    tested = set(re.findall(r"Newsift\w+(?=\")|(?<=alertname: )Newsift\w+", TESTS))
    rules = [rule for group in RULES["groups"] for rule in group["rules"]]
    alerts = {rule["alert"]: rule for rule in rules if "alert" in rule}
    assert tested == set(alerts)
    assert all(rule["record"] in TESTS for rule in RECORDING)
    for rule in alerts.values():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert set(rule["annotations"]) == {"summary", "description"}
