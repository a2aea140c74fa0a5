"""Evaluates the part of PromQL that ``deploy/prometheus-alerts.yaml`` uses, over scrapes of ``/metrics``.

It differs from Prometheus in one point: ``increase`` and ``delta`` do not extrapolate to the ends of their range. It
raises NotImplementedError for what it does not know.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

import promql_parser as promql
from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Vector = dict[Labels, float]
_LOOKBACK_S = 300.0
_COMPARES: Mapping[str, Callable[[float, float], bool]] = {
    "==": operator.eq, "!=": operator.ne, ">": operator.gt, "<": operator.lt, ">=": operator.ge, "<=": operator.le,
}  # fmt: skip
_AGGREGATES: Mapping[str, Callable[[list[float]], float]] = {"sum": sum, "max": max, "min": min}


@dataclass
class Scrapes:
    """Answers of ``/metrics`` by the time at which they were given, in seconds."""

    at: list[tuple[float, dict[str, Vector]]] = field(default_factory=list)

    def add(self, time_s: float, text: str) -> None:
        """Take in an answer, later than all before."""
        found: dict[str, Vector] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, {})[frozenset(sample.labels.items())] = sample.value
        self.at.append((time_s, found))

    def fail(self, time_s: float) -> None:
        """A scrape without an answer: all series end."""
        self.at.append((time_s, {}))

    def instant(self, selector: promql.VectorSelector, time_s: float) -> Vector:
        """The last values at ``time_s``: those of the last scrape, as a series that it lacks has ended."""
        seen = [found for at, found in self.at if time_s - _LOOKBACK_S < at <= time_s]
        return {} if not seen else self._selected(seen[-1], selector)

    def range(self, selector: promql.VectorSelector, from_s: float, to_s: float) -> dict[Labels, list[float]]:
        """All values after ``from_s``, up to ``to_s``."""
        found: dict[Labels, list[float]] = {}
        for at, families in self.at:
            if from_s < at <= to_s:
                for labels, value in self._selected(families, selector).items():
                    found.setdefault(labels, []).append(value)
        return found

    @staticmethod
    def _selected(families: Mapping[str, Vector], selector: promql.VectorSelector) -> Vector:
        series = families.get(selector.name or "", {})
        return {labels: value for labels, value in series.items() if _matches(dict(labels), selector)}


def _matches(labels: Mapping[str, str], selector: promql.VectorSelector) -> bool:
    for matcher in selector.matchers.matchers:
        found, wanted = labels.get(matcher.name, ""), matcher.value
        equal = matcher.op in (promql.MatchOp.Equal, promql.MatchOp.Re)
        by_pattern = matcher.op in (promql.MatchOp.Re, promql.MatchOp.NotRe)
        if (re.fullmatch(wanted, found) is not None if by_pattern else found == wanted) is not equal:
            return False
    return True


def metrics_of(expression: promql.Expr) -> set[str]:
    """The names of all metrics in ``expression``."""
    match expression:
        case promql.VectorSelector():
            return {expression.name or ""}
        case promql.MatrixSelector():
            return metrics_of(expression.vector_selector)
        case promql.BinaryExpr():
            return metrics_of(expression.lhs) | metrics_of(expression.rhs)
        case promql.AggregateExpr() | promql.ParenExpr():
            return metrics_of(expression.expr)
        case promql.Call():
            return set().union(*map(metrics_of, expression.args))
    return set()


def evaluate(expression: promql.Expr, scrapes: Scrapes, time_s: float) -> Vector:
    """The series that ``expression`` gives at ``time_s``."""
    match expression:
        case promql.ParenExpr():
            return evaluate(expression.expr, scrapes, time_s)
        case promql.VectorSelector():
            return scrapes.instant(expression, time_s - _offset_s(expression))
        case promql.AggregateExpr():
            return _aggregated(expression, evaluate(expression.expr, scrapes, time_s))
        case promql.Call():
            return _called(expression, scrapes, time_s)
        case promql.BinaryExpr():
            return _combined(expression, scrapes, time_s)
    raise NotImplementedError(expression.prettify())


def _offset_s(selector: promql.VectorSelector) -> float:
    return selector.offset.total_seconds() if isinstance(selector.offset, timedelta) else 0.0


def _named(labels: Labels, names: list[str]) -> Labels:
    return frozenset((name, value) for name, value in labels if name in names)


def _aggregated(expression: promql.AggregateExpr, found: Vector) -> Vector:
    by = expression.modifier
    if by is None or by.type is not promql.AggModifierType.By:
        raise NotImplementedError(expression.prettify())
    groups: dict[Labels, list[float]] = {}
    for labels, value in found.items():
        groups.setdefault(_named(labels, by.labels), []).append(value)
    return {labels: _AGGREGATES[str(expression.op)](values) for labels, values in groups.items()}


def _called(expression: promql.Call, scrapes: Scrapes, time_s: float) -> Vector:
    (matrix,) = expression.args
    if not isinstance(matrix, promql.MatrixSelector):
        raise NotImplementedError(expression.prettify())
    end_s = time_s - _offset_s(matrix.vector_selector)
    found = scrapes.range(matrix.vector_selector, end_s - matrix.range.total_seconds(), end_s)
    several = {labels: values for labels, values in found.items() if len(values) > 1}
    if expression.func.name == "delta":
        return {labels: values[-1] - values[0] for labels, values in several.items()}
    if expression.func.name == "increase":  # a counter that became less began again at 0
        return {
            labels: sum(now - was if now >= was else now for was, now in pairwise(values))
            for labels, values in several.items()
        }
    raise NotImplementedError(expression.prettify())


def _combined(expression: promql.BinaryExpr, scrapes: Scrapes, time_s: float) -> Vector:
    found, kind = evaluate(expression.lhs, scrapes, time_s), str(expression.op)
    if kind in _COMPARES and isinstance(expression.rhs, promql.NumberLiteral):
        limit = expression.rhs.val
        return {labels: value for labels, value in found.items() if _COMPARES[kind](value, limit)}
    if kind not in ("and", "unless"):
        raise NotImplementedError(expression.prettify())
    matching = None if expression.modifier is None else expression.modifier.matching
    if matching is not None and matching.type is not promql.LabelModifierType.Include:
        raise NotImplementedError(expression.prettify())

    def key(labels: Labels) -> Labels:
        return labels if matching is None else _named(labels, matching.labels)

    others = {key(labels) for labels in evaluate(expression.rhs, scrapes, time_s)}
    return {labels: value for labels, value in found.items() if (key(labels) in others) is (kind == "and")}
