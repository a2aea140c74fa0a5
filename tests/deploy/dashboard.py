"""``deploy/grafana-dashboard.json``: the metrics and labels in its expressions, and those that a scrape has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

FILE = Path(__file__).parents[2] / "deploy" / "grafana-dashboard.json"
_METRIC = re.compile(r"\$\{names\}(_[a-z0-9_]+)(?:\{([^}]*)\})?")
_GROUPED = re.compile(r"\bby \(([^)]*)\)")
_MATCHED = re.compile(r'([a-z_]+)\s*(?:=~|!~|!=|=)\s*"')
_SHOWN = re.compile(r"\{\{\s*([a-z_]+)\s*\}\}")


def dashboard() -> dict[str, Any]:
    """Returns the content of the file."""
    loaded: dict[str, Any] = json.loads(FILE.read_text())
    return loaded


def targets(board: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the title of a panel, and one of its queries."""
    for panel in board["panels"]:
        for target in panel.get("targets", ()):
            yield panel["title"], target


def labels_in(scrape: str) -> dict[str, set[str]]:
    """Returns the labels of each name in a scrape, with the name as it is there: a histogram's with ``_bucket``."""
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(scrape):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def missing_from(scrape: str, board: dict[str, Any], names: str = "kafka") -> list[str]:
    """Returns what the dashboard names and ``scrape`` lacks: a metric, or a label of one. ``names``: the variable."""
    exported, missing = labels_in(scrape), []
    for title, target in targets(board):
        asked = _METRIC.findall(target["expr"])
        assert asked, f"{title}: no metric in {target['expr']}"
        labels: set[str] = set()
        for rest, matchers in asked:
            metric = names + rest
            if metric not in exported:
                missing.append(f"{title}: metric {metric}")
                continue
            labels |= exported[metric]
            missing += [f"{title}: label {it} of {metric}" for it in _MATCHED.findall(matchers) if it not in labels]
        grouped = [{it.strip() for it in group.split(",")} for group in _GROUPED.findall(target["expr"])]
        kept = grouped[0] if grouped else labels
        missing += [f"{title}: label {it} to group by" for it in set().union(*grouped) - labels]
        missing += [f"{title}: label {it} to show" for it in _SHOWN.findall(target["legendFormat"]) if it not in kept]
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.findall(r"label_values\(\$\{names\}(\w+), (\w+)\)", variable["definition"])[0]
            if label not in exported.get(names + metric, ()):
                missing.append(f"variable {variable['name']}: {metric}, {label}")
    return missing
